//! Deterministic damage to XML files.

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// What attribute values and digits are replaced with.
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "2",
    "3",
    "-1",
    "-2",
    "7",
    "64",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "99999999999999999999999999",
    "0,9223372036854775807",
    "4611686018427387904,4",
    "1,,2",
    "?",
    "...",
    "1..3",
    "3..1",
    "abc",
    "f32",
    "FP32",
    "u1",
    "u3",
    "i4",
    "string",
    "inf",
    "nan",
    "1e999",
    "0x1",
    "+1",
    " 1",
    "1 ",
    "Parameter",
    "Result",
    "Const",
    "Constant",
    "Assign",
    "If",
    "Loop",
    "TensorIterator",
    "ReadValue",
    "opset99",
    "&amp;",
    "&lt;x&gt;",
    "&#10;",
    "&nope;",
    "a\\,b",
    "\u{202e}x",
    "é",
];

/// Damages the text in one place; what comes out is seldom well-formed.
pub fn apply(text: &mut Vec<u8>, random: &mut Random) {
    match random.below(10) {
        0..=3 => replace_value(text, random),
        4 => replace_digit(text, random),
        5 => edit_lines(text, random),
        6 => {
            let start = random.below(text.len());
            let end = (start + random.below(40)).min(text.len());
            text.drain(start..end);
        }
        7 => {
            let at = random.below(text.len());
            if let Some(byte) = text.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        8 if random.below(4) == 0 => text.truncate(random.below(text.len())),
        _ => remove_attribute(text, random),
    }
}

/// The ranges between quotes.
fn values(text: &[u8]) -> Vec<(usize, usize)> {
    let quotes: Vec<usize> = text.iter().enumerate().filter(|(_, b)| **b == b'"').map(|(at, _)| at).collect();
    quotes.chunks_exact(2).map(|pair| (pair[0] + 1, pair[1])).collect()
}

fn replace_value(text: &mut Vec<u8>, random: &mut Random) {
    let values = values(text);
    if values.is_empty() {
        return;
    }
    let (start, end) = values[random.below(values.len())];
    // Half of the time a value from elsewhere in the file: plausible ids and types.
    let new = if random.below(2) == 0 {
        let (from, to) = values[random.below(values.len())];
        text[from..to].to_vec()
    } else {
        VALUES[random.below(VALUES.len())].into()
    };
    text.splice(start..end, new);
}

fn replace_digit(text: &mut [u8], random: &mut Random) {
    let digits: Vec<usize> = (0..text.len()).filter(|&at| text[at].is_ascii_digit()).collect();
    if let Some(&at) = digits.get(random.below(digits.len())) {
        text[at] = b'0' + random.below(10) as u8;
    }
}

fn edit_lines(text: &mut Vec<u8>, random: &mut Random) {
    let mut lines: Vec<Vec<u8>> = text.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    if lines.is_empty() {
        return;
    }
    let (one, other) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(3) {
        0 => lines.swap(one, other),
        1 => lines.insert(other, lines[one].clone()),
        _ => drop(lines.remove(one)),
    }
    *text = lines.concat();
}

/// Removes a whole ` name="value"`.
fn remove_attribute(text: &mut Vec<u8>, random: &mut Random) {
    let values = values(text);
    if let Some(&(start, end)) = values.get(random.below(values.len())) {
        let from = text[..start].iter().rposition(|&b| b == b' ').unwrap_or(start);
        text.drain(from..(end + 1).min(text.len()));
    }
}

/// Where a value stands that may be changed without making the XML malformed.
struct Site {
    tag: Vec<u8>,
    name: Vec<u8>,
    start: usize,
    end: usize,
}

/// Changes one value so that well-formed XML stays well-formed: an attribute of an operation, a dimension, an end of an
/// edge, an offset.
pub fn change_value(text: &mut Vec<u8>, random: &mut Random) {
    let sites = sites(text);
    // Kinds first: most values of a file are dimensions and numbers of ports.
    let kind = [&b"data"[..], b"edge", b"dim", b"data", b"layer", b"port"][random.below(6)];
    let of_kind: Vec<&Site> = sites.iter().filter(|site| site.tag == kind).collect();
    let Some(site) = of_kind.get(random.below(of_kind.len())) else { return };
    let old = &text[site.start..site.end];
    let same_name: Vec<&Site> = sites.iter().filter(|other| other.name == site.name).collect();
    let new = match random.below(8) {
        0 | 1 => {
            let other = same_name[random.below(same_name.len())];
            text[other.start..other.end].to_vec()
        }
        2..=5 if old.iter().any(u8::is_ascii_digit) => change_number(old, random),
        6 if old.contains(&b',') => change_list(old, random),
        _ => {
            let plain: Vec<&&str> = VALUES.iter().filter(|value| !value.contains('&')).collect();
            plain[random.below(plain.len())].as_bytes().to_vec()
        }
    };
    text.splice(site.start..site.end, new);
}

/// All attribute values, and the text of elements that hold a number.
fn sites(text: &[u8]) -> Vec<Site> {
    let mut sites = Vec::new();
    for (open, _) in text.iter().enumerate().filter(|(_, b)| **b == b'<') {
        let length = text[open..].iter().position(|b| *b == b'>').unwrap_or(0);
        let (inside, after) = (&text[open..open + length], open + length + 1);
        let tag: Vec<u8> = inside.iter().skip(1).take_while(|b| b.is_ascii_alphanumeric()).copied().collect();
        let quotes: Vec<usize> = inside.iter().enumerate().filter(|(_, b)| **b == b'"').map(|(at, _)| at).collect();
        for pair in quotes.chunks_exact(2) {
            let name = inside[..pair[0]].rsplit(|b| *b == b' ').next().unwrap_or_default().to_vec();
            sites.push(Site { tag: tag.clone(), name, start: open + pair[0] + 1, end: open + pair[1] });
        }
        let number = text.get(after..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count();
        if number > 0 {
            sites.push(Site { name: tag.clone(), tag, start: after, end: after + number });
        }
    }
    sites
}

/// One number of a value becomes a neighbour, a small or a huge one.
fn change_number(value: &[u8], random: &mut Random) -> Vec<u8> {
    let text = String::from_utf8_lossy(value).into_owned();
    let is_digit = |at: usize| value.get(at).is_some_and(u8::is_ascii_digit);
    let starts: Vec<usize> = (0..value.len()).filter(|&at| is_digit(at) && (at == 0 || !is_digit(at - 1))).collect();
    let Some(&start) = starts.get(random.below(starts.len())) else { return value.to_vec() };
    let end = (start..value.len()).find(|&at| !is_digit(at)).unwrap_or(value.len());
    let old: i128 = text[start..end].parse().unwrap_or(0);
    let new = match random.below(12) {
        0 | 1 => old + 1,
        2 | 3 => old - 1,
        4 => old * 2,
        5 => old / 2,
        6 => 0,
        7 => -old,
        8 => random.below(8) as i128,
        9 => 1 << random.below(20),
        10 => (1 << random.below(66)) - 1,
        _ => old + random.below(64) as i128,
    };
    format!("{}{new}{}", &text[..start], &text[end..]).into_bytes()
}

/// Drops, doubles or exchanges elements of a list.
fn change_list(value: &[u8], random: &mut Random) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = value.split(|b| *b == b',').collect();
    let (one, other) = (random.below(parts.len()), random.below(parts.len()));
    match random.below(3) {
        0 => drop(parts.remove(one)),
        1 => parts.insert(other, parts[one]),
        _ => parts.swap(one, other),
    }
    parts.join(&b","[..])
}
