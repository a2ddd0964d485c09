//! Element types of OpenVINO tensors: their names in the file format and their storage sizes.

use std::fmt;

/// The type of one tensor element as the IR knows it.
///
/// The order has no meaning; it only serves as a stable sort key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ElementType {
    /// One byte per value, zero is false.
    Boolean,
    /// bfloat16: the upper half of an `f32`.
    Bf16,
    /// IEEE half precision.
    F16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
    /// Signed 4-bit integer, low nibble first.
    I4,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// One bit, most significant bit first.
    U1,
    /// Two bits, least significant pair first.
    U2,
    /// Three bits: three bytes hold eight values.
    U3,
    /// Unsigned 4-bit integer, low nibble first.
    U4,
    /// Six bits: three bytes hold four values.
    U6,
    /// Unsigned 8-bit integer.
    U8,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 64-bit integer.
    U64,
    /// 4-bit normal float (16 fixed levels), low nibble first.
    Nf4,
    /// 8-bit float, 4 exponent and 3 mantissa bits.
    F8e4m3,
    /// 8-bit float, 5 exponent and 2 mantissa bits.
    F8e5m2,
    /// 8-bit power of two.
    F8e8m0,
    /// 4-bit float, 2 exponent and 1 mantissa bit, low nibble first.
    F4e2m1,
    /// Variable-length UTF-8 text.
    String,
}

use ElementType as E;

/// Type, bits per value, short name, name in the `precision` of a port.
const TABLE: &[(ElementType, u32, &str, &str)] = &[
    (E::Boolean, 8, "boolean", "BOOL"),
    (E::Bf16, 16, "bf16", "BF16"),
    (E::F16, 16, "f16", "FP16"),
    (E::F32, 32, "f32", "FP32"),
    (E::F64, 64, "f64", "FP64"),
    (E::I4, 4, "i4", "I4"),
    (E::I8, 8, "i8", "I8"),
    (E::I16, 16, "i16", "I16"),
    (E::I32, 32, "i32", "I32"),
    (E::I64, 64, "i64", "I64"),
    (E::U1, 1, "u1", "U1"),
    (E::U2, 2, "u2", "U2"),
    (E::U3, 3, "u3", "U3"),
    (E::U4, 4, "u4", "U4"),
    (E::U6, 6, "u6", "U6"),
    (E::U8, 8, "u8", "U8"),
    (E::U16, 16, "u16", "U16"),
    (E::U32, 32, "u32", "U32"),
    (E::U64, 64, "u64", "U64"),
    (E::Nf4, 4, "nf4", "NF4"),
    (E::F8e4m3, 8, "f8e4m3", "F8E4M3"),
    (E::F8e5m2, 8, "f8e5m2", "F8E5M2"),
    (E::F8e8m0, 8, "f8e8m0", "F8E8M0"),
    (E::F4e2m1, 4, "f4e2m1", "F4E2M1"),
    (E::String, 0, "string", "STRING"),
];

impl ElementType {
    /// Every element type, in declaration order.
    pub fn all() -> impl Iterator<Item = ElementType> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> (u32, &'static str) {
        // The table is in declaration order (tested), so the discriminant is the row number.
        TABLE.get(self as usize).map_or((0, "?"), |row| (row.1, row.2))
    }

    /// Bits per value; 0 for [`ElementType::String`], whose values have no fixed size.
    pub fn bits(self) -> u32 {
        self.row().0
    }

    /// The short lower-case name used in `<data element_type=..>`: `f32`, `boolean`, ...
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Reads the value of a `<data>` attribute such as `element_type` or `destination_type`:
    /// the short name in lower or upper case. `FP32`, `BOOL` and the like are port precisions, not data types.
    pub fn from_data(text: &str) -> Option<Self> {
        let matches = |name: &str| {
            text == name || (text.eq_ignore_ascii_case(name) && text == text.to_ascii_uppercase().as_str())
        };
        TABLE.iter().find(|row| matches(row.2)).map(|row| row.0)
    }

    /// Reads the `precision` of an output port: `FP32`, `BOOL`, `BIN`, ... or the lower-case short name.
    ///
    /// `None` also for the names that mean "not known" (`UNSPECIFIED`, `dynamic`, `undefined`).
    pub fn from_port_precision(text: &str) -> Option<Self> {
        TABLE.iter().find(|row| text == row.2 || text == row.3).map(|row| row.0).or(if text == "BIN" {
            Some(E::U1)
        } else {
            None
        })
    }

    /// Floating point of any width, the 4- and 8-bit formats included.
    pub fn is_float(self) -> bool {
        matches!(self, E::Bf16 | E::F16 | E::F32 | E::F64 | E::Nf4 | E::F8e4m3 | E::F8e5m2 | E::F8e8m0 | E::F4e2m1)
    }

    /// Integer of any width; [`ElementType::Boolean`] is not one.
    pub fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, E::Boolean | E::String)
    }

    /// Largest finite value of a floating-point type; zero for other types.
    pub fn largest_float(self) -> f64 {
        use ElementType::*;
        match self {
            F64 => f64::MAX,
            F32 => f64::from(f32::MAX),
            F16 => 65504.0,
            Bf16 => f64::from(f32::from_bits(0x7f7f_0000)),
            F8e4m3 => 448.0,
            F8e5m2 => 57344.0,
            // 2^127
            F8e8m0 => f64::from(f32::from_bits(0x7f00_0000)),
            F4e2m1 => 6.0,
            Nf4 => 1.0,
            _ => 0.0,
        }
    }

    /// Whether negative values exist: floats (except the exponent-only `f8e8m0`) and `i*`.
    pub fn is_signed(self) -> bool {
        matches!(self, E::I4 | E::I8 | E::I16 | E::I32 | E::I64) || (self.is_float() && self != E::F8e8m0)
    }

    /// Bytes that `count` values take in the weights file and in memory, `None` if that overflows.
    ///
    /// Types below a byte are packed and rounded up to a byte; `u3` and `u6` come in groups of three bytes.
    /// [`ElementType::String`] has no fixed size and gives 0.
    pub fn storage_bytes(self, count: usize) -> Option<usize> {
        match self {
            E::U3 => count.div_ceil(8).checked_mul(3),
            E::U6 => count.div_ceil(4).checked_mul(3),
            _ => {
                let bits = self.bits() as usize;
                if bits.is_multiple_of(8) {
                    count.checked_mul(bits / 8)
                } else {
                    // bits is 1, 2 or 4: divide first, so that nothing overflows.
                    Some(count.div_ceil(8 / bits))
                }
            }
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_declaration_order() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, index, "{}", row.2);
        }
        assert_eq!(TABLE.len(), E::String as usize + 1);
    }

    #[test]
    fn names_round_trip() {
        for element in ElementType::all() {
            assert_eq!(ElementType::from_data(element.name()), Some(element));
            let upper = element.name().to_ascii_uppercase();
            assert_eq!(ElementType::from_data(&upper), Some(element));
            assert_eq!(ElementType::from_port_precision(element.name()), Some(element));
        }
    }

    #[test]
    fn data_and_port_names_are_different_sets() {
        for text in ["FP32", "FP16", "BOOL", "BIN", "fp32", "bool", "", "dynamic", "Boolean", "f32 "] {
            assert_eq!(ElementType::from_data(text), None, "{text}");
        }
        for text in ["F32", "F64", "fp32", "bool", "BOOLEAN", "DYNAMIC", "MIXED", "Q78", "", "UNSPECIFIED"] {
            assert_eq!(ElementType::from_port_precision(text), None, "{text}");
        }
        assert_eq!(ElementType::from_port_precision("FP32"), Some(E::F32));
        assert_eq!(ElementType::from_port_precision("BOOL"), Some(E::Boolean));
        assert_eq!(ElementType::from_port_precision("BIN"), Some(E::U1));
        assert_eq!(ElementType::from_data("F32"), Some(E::F32));
    }

    #[test]
    fn storage_rounds_up_and_never_overflows() {
        assert_eq!(E::F32.storage_bytes(3), Some(12));
        assert_eq!(E::U1.storage_bytes(9), Some(2));
        assert_eq!(E::U2.storage_bytes(5), Some(2));
        assert_eq!(E::I4.storage_bytes(5), Some(3));
        assert_eq!(E::U3.storage_bytes(5), Some(3));
        assert_eq!(E::U3.storage_bytes(9), Some(6));
        assert_eq!(E::U6.storage_bytes(4), Some(3));
        assert_eq!(E::U6.storage_bytes(5), Some(6));
        assert_eq!(E::String.storage_bytes(5), Some(0));
        assert_eq!(E::F32.storage_bytes(usize::MAX), None);
        assert_eq!(E::U1.storage_bytes(usize::MAX), Some(usize::MAX / 8 + 1));
        assert_eq!(E::U3.storage_bytes(0), Some(0));
    }

    #[test]
    fn classes() {
        assert!(E::I4.is_integer() && E::I4.is_signed() && !E::I4.is_float());
        assert!(!E::Boolean.is_integer() && !E::Boolean.is_float() && !E::Boolean.is_signed());
        assert!(E::Nf4.is_float() && E::Nf4.is_signed());
        assert!(!E::F8e8m0.is_signed());
        assert!(!E::String.is_integer());
    }
}
