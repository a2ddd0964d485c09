//! Number grammars of the file format: strict ones for structure, prefix ones for `<data>` attributes.

/// Why a text is not the number that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumberError {
    /// It does not start with a number, or goes on behind it where that is not allowed.
    Syntax,
    /// It is a number out of range.
    Range,
}

impl NumberError {
    /// Completes the sentence "... is".
    pub fn reason(self) -> &'static str {
        match self {
            NumberError::Syntax => "not a number",
            NumberError::Range => "out of range",
        }
    }
}

fn skip_space(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b')
}

/// Splits leading ASCII digits off.
fn digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// A whole number as structural attributes have it (`id`, `offset`, `axis`, ...): leading spaces and a sign are
/// allowed, anything behind the digits is not.
pub fn signed(text: &str) -> Result<i64, NumberError> {
    match integer_prefix(text)? {
        (value, "") => Ok(value),
        _ => Err(NumberError::Syntax),
    }
}

/// Like [`signed`] but not negative.
pub fn unsigned(text: &str) -> Result<u64, NumberError> {
    u64::try_from(signed(text)?).map_err(|_| NumberError::Range)
}

/// A whole number at the start of the text, and what follows it.
pub fn integer_prefix(text: &str) -> Result<(i64, &str), NumberError> {
    let (negative, rest) = sign(skip_space(text));
    let (digits, rest) = digits(rest);
    if digits.is_empty() {
        return Err(NumberError::Syntax);
    }
    let mut value: i64 = 0;
    for digit in digits.bytes() {
        let digit = i64::from(digit - b'0');
        // Counting down reaches i64::MIN.
        value = value.checked_mul(10).and_then(|v| v.checked_sub(digit)).ok_or(NumberError::Range)?;
    }
    if !negative {
        value = value.checked_neg().ok_or(NumberError::Range)?;
    }
    Ok((value, rest))
}

/// A decimal number at the start of the text, and what follows it: C locale; `inf`, `-inf` and `nan` in lower case;
/// underflow gives 0, overflow is [`NumberError::Range`].
pub fn float_prefix(text: &str) -> Result<(f64, &str), NumberError> {
    let text = skip_space(text);
    let (negative, body) = sign(text);
    for (word, value) in [("infinity", None), ("inf", Some(f64::INFINITY)), ("nan", Some(f64::NAN))] {
        if let Some(rest) = body.strip_prefix(word) {
            let value = value.ok_or(NumberError::Syntax)?;
            return Ok((if negative { -value } else { value }, rest));
        }
    }
    let (whole, rest) = digits(body);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => digits(after),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(NumberError::Syntax);
    }
    let rest = skip_exponent(rest);
    let number = body.get(..body.len() - rest.len()).unwrap_or(body);
    let value: f64 = number.parse().map_err(|_| NumberError::Syntax)?;
    if value.is_infinite() {
        return Err(NumberError::Range);
    }
    Ok((if negative { -value } else { value }, rest))
}

/// What follows an exponent, if the text starts with a complete one.
fn skip_exponent(text: &str) -> &str {
    let Some(after) = text.strip_prefix(['e', 'E']) else {
        return text;
    };
    match digits(sign(after).1) {
        ("", _) => text,
        (_, rest) => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structural_integers() {
        for (text, value) in [("0", 0), ("011", 11), ("+11", 11), (" 11", 11), ("9223372036854775807", i64::MAX as u64)]
        {
            assert_eq!(unsigned(text), Ok(value), "{text}");
        }
        for text in ["", "abc", "11.0", "0x0B", "1a", "1 ", "+", "-", "١"] {
            assert_eq!(unsigned(text), Err(NumberError::Syntax), "{text}");
        }
        for text in ["-1", "9223372036854775808", "99999999999999999999999"] {
            assert_eq!(unsigned(text), Err(NumberError::Range), "{text}");
        }
        assert_eq!(signed("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(signed("-9223372036854775809"), Err(NumberError::Range));
    }

    #[test]
    fn prefixes() {
        assert_eq!(integer_prefix("1.7"), Ok((1, ".7")));
        assert_eq!(integer_prefix("1,0"), Ok((1, ",0")));
        assert_eq!(integer_prefix(" 1 "), Ok((1, " ")));
        assert_eq!(integer_prefix("0x1"), Ok((0, "x1")));
        assert_eq!(integer_prefix("abc"), Err(NumberError::Syntax));
    }

    #[test]
    fn floats() {
        for (text, value, rest) in [
            ("1.5f", 1.5, "f"),
            ("1,5", 1.0, ",5"),
            ("-.5e1", -5.0, ""),
            ("5.", 5.0, ""),
            ("1e", 1.0, "e"),
            ("1e+", 1.0, "e+"),
            ("1e-999", 0.0, ""),
            ("inf", f64::INFINITY, ""),
            ("-inf", f64::NEG_INFINITY, ""),
            (" 3 ", 3.0, " "),
        ] {
            assert_eq!(float_prefix(text), Ok((value, rest)), "{text}");
        }
        assert!(float_prefix("nan").unwrap().0.is_nan());
        for text in ["INF", "Infinity", "infinity", "NaN", "abc", "", ".", "-", "e5"] {
            assert_eq!(float_prefix(text), Err(NumberError::Syntax), "{text}");
        }
        assert_eq!(float_prefix("1e400"), Err(NumberError::Range));
    }
}
