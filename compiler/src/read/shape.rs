//! The shape grammar of Parameters and variables: fixed, unknown and bounded dimensions, unknown rank.

use super::number::{NumberError, integer_prefix};

/// The sizes that a dimension can have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DimRange {
    /// Smallest size.
    pub min: u64,
    /// Largest size, `None` if unbounded.
    pub max: Option<u64>,
}

impl DimRange {
    /// Any size.
    pub const ANY: DimRange = DimRange { min: 0, max: None };

    /// Exactly this size.
    pub fn exactly(size: u64) -> Self {
        DimRange { min: size, max: Some(size) }
    }

    /// The size, if there is only one.
    pub fn fixed(self) -> Option<u64> {
        self.max.filter(|&max| max == self.min)
    }
}

/// Dimensions that a shape can have; real ones have at most ten or so.
pub const RANK_LIMIT: usize = 128;

/// A shape with ranges.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Dims {
    /// The number of dimensions is unknown (`...`); then `dims` is empty.
    pub dynamic_rank: bool,
    /// One range per dimension; empty for a scalar.
    pub dims: Vec<DimRange>,
}

impl Dims {
    /// The sizes, if all are fixed.
    pub fn fixed(&self) -> Option<Vec<u64>> {
        if self.dynamic_rank {
            return None;
        }
        self.dims.iter().map(|dim| dim.fixed()).collect()
    }
}

/// Parses `1,3,?`, `[1..8, 3]`, `...`, `` (a scalar).
///
/// # Errors
/// A sentence that says which part is wrong, without the value itself.
pub fn parse(text: &str) -> Result<Dims, String> {
    let mut inner = text.trim();
    if let Some(rest) = inner.strip_prefix('[') {
        inner = rest.strip_suffix(']').ok_or("`[` is not closed")?.trim();
    }
    if inner == "..." {
        return Ok(Dims { dynamic_rank: true, dims: Vec::new() });
    }
    if inner.is_empty() {
        return Ok(Dims::default());
    }
    if inner.split(',').nth(RANK_LIMIT).is_some() {
        return Err(format!("there are more than {RANK_LIMIT} dimensions"));
    }
    let dims = inner
        .split(',')
        .enumerate()
        .map(|(axis, part)| dimension(part.trim()).map_err(|reason| format!("dimension {axis} is {reason}")))
        .collect::<Result<_, _>>()?;
    Ok(Dims { dynamic_rank: false, dims })
}

fn dimension(text: &str) -> Result<DimRange, &'static str> {
    match text {
        "?" | "-1" => return Ok(DimRange::ANY),
        "" => return Err("empty"),
        _ => {}
    }
    let Some((min, max)) = text.split_once("..") else {
        return size(text).map(DimRange::exactly);
    };
    let (min, max) = (min.trim(), max.trim());
    let range = DimRange {
        min: if min.is_empty() { 0 } else { size(min)? },
        max: if max.is_empty() { None } else { Some(size(max)?) },
    };
    if range.max.is_some_and(|max| max < range.min) {
        return Err("an empty range");
    }
    Ok(range)
}

fn size(text: &str) -> Result<u64, &'static str> {
    match integer_prefix(text) {
        Ok((value, "")) => u64::try_from(value).map_err(|_| "negative"),
        Ok(_) | Err(NumberError::Syntax) => Err("not a number, `?` or a range such as `1..8`"),
        Err(NumberError::Range) => Err("out of range"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        match parse(text) {
            Err(reason) => reason,
            Ok(dims) if dims.dynamic_rank => "...".into(),
            Ok(dims) => {
                let show = |d: &DimRange| match (d.min, d.max) {
                    (0, None) => "?".into(),
                    (min, None) => format!("{min}.."),
                    (min, Some(max)) if min == max => format!("{min}"),
                    (min, Some(max)) => format!("{min}..{max}"),
                };
                dims.dims.iter().map(show).collect::<Vec<_>>().join(",")
            }
        }
    }

    #[test]
    fn accepted() {
        for (text, expected) in [
            ("1,3", "1,3"),
            ("[1,3]", "1,3"),
            (" 1 , 3 ", "1,3"),
            ("?,-1,0", "?,?,0"),
            ("1..8,..4,2..", "1..8,0..4,2.."),
            ("...", "..."),
            ("[...]", "..."),
            ("", ""),
            ("[]", ""),
            ("..", "?"),
            ("5..5", "5"),
        ] {
            assert_eq!(show(text), expected, "{text}");
        }
    }

    #[test]
    fn rejected() {
        for text in [
            "1,,3",
            "1,3,",
            ",",
            "abc",
            "-2",
            "10..1",
            "1..-1",
            "[1",
            "1]",
            "1..2..3",
            "1.5",
            "0x1",
            "1 2",
            "99999999999999999999",
            "....",
            "?..3",
        ] {
            assert!(parse(text).is_err(), "{text}: {}", show(text));
        }
    }
}
