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

/// Damages the text in one place.
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
