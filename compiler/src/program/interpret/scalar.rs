//! Scalar functions on blocks: one place that says what each function means, in terms of the runtime's arithmetic.

use super::lanes::Lanes;
use crate::element::ElementType;
use crate::program::nest::{Binary, Unary};
use include_ir_runtime::__private::v1::{cast, math};

fn each<T: Copy, R>(a: &[T], out: &mut [R], f: impl Fn(T) -> R) {
    for (out, a) in out.iter_mut().zip(a) {
        *out = f(*a);
    }
}

fn pairs<T: Copy, R>(a: &[T], b: &[T], out: &mut [R], f: impl Fn(T, T) -> R) {
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = f(*a, *b);
    }
}

/// `out = function(a)`, lane by lane.
pub fn unary(function: Unary, a: &Lanes, out: &mut Lanes) -> Result<(), String> {
    match (a, out) {
        (Lanes::F32(a), Lanes::F32(out)) => each(a, out, unary_f32(function)?),
        (Lanes::F64(a), Lanes::F64(out)) => each(a, out, unary_f64(function)?),
        (Lanes::F32(a), Lanes::Bool(out)) => match function {
            Unary::IsNan => each(a, out, f32::is_nan),
            Unary::IsFinite => each(a, out, f32::is_finite),
            Unary::IsPosInf => each(a, out, |x| x == f32::INFINITY),
            Unary::IsNegInf => each(a, out, |x| x == f32::NEG_INFINITY),
            _ => return Err(misfit(function)),
        },
        (Lanes::F64(a), Lanes::Bool(out)) => match function {
            Unary::IsNan => each(a, out, f64::is_nan),
            Unary::IsFinite => each(a, out, f64::is_finite),
            Unary::IsPosInf => each(a, out, |x| x == f64::INFINITY),
            Unary::IsNegInf => each(a, out, |x| x == f64::NEG_INFINITY),
            _ => return Err(misfit(function)),
        },
        (Lanes::I32(a), Lanes::I32(out)) => match function {
            Unary::Neg => each(a, out, i32::wrapping_neg),
            Unary::Abs => each(a, out, i32::wrapping_abs),
            Unary::Sign => each(a, out, i32::signum),
            Unary::BitNot => each(a, out, |x| !x),
            _ => return Err(misfit(function)),
        },
        (Lanes::I64(a), Lanes::I64(out)) => match function {
            Unary::Neg => each(a, out, i64::wrapping_neg),
            Unary::Abs => each(a, out, i64::wrapping_abs),
            Unary::Sign => each(a, out, i64::signum),
            Unary::BitNot => each(a, out, |x| !x),
            _ => return Err(misfit(function)),
        },
        (Lanes::U64(a), Lanes::U64(out)) => match function {
            Unary::Neg => each(a, out, u64::wrapping_neg),
            Unary::Abs => each(a, out, |x| x),
            Unary::Sign => each(a, out, |x| u64::from(x != 0)),
            Unary::BitNot => each(a, out, |x| !x),
            _ => return Err(misfit(function)),
        },
        (Lanes::Bool(a), Lanes::Bool(out)) if matches!(function, Unary::Not | Unary::BitNot) => each(a, out, |x| !x),
        (Lanes::I32(_) | Lanes::I64(_) | Lanes::U64(_) | Lanes::Bool(_), Lanes::Bool(out)) => match function {
            Unary::IsFinite => out.fill(true),
            Unary::IsNan | Unary::IsPosInf | Unary::IsNegInf => out.fill(false),
            _ => return Err(misfit(function)),
        },
        _ => return Err(misfit(function)),
    }
    Ok(())
}

fn misfit(function: impl std::fmt::Debug) -> String {
    format!("{function:?} is not defined for its operand's type")
}

fn unary_f32(function: Unary) -> Result<fn(f32) -> f32, String> {
    Ok(match function {
        Unary::Neg => |x| -x,
        Unary::Abs => math::abs,
        Unary::Sign => math::sign,
        Unary::Exp => math::exp,
        Unary::ExpOrZero => math::exp_or_zero,
        Unary::ExpM1 => math::exp_m1,
        Unary::Ln => math::ln,
        Unary::Ln1p => math::ln_1p,
        Unary::Sqrt => math::sqrt,
        Unary::Sin => math::sin,
        Unary::Cos => math::cos,
        Unary::Tan => math::tan,
        Unary::Asin => math::asin,
        Unary::Acos => math::acos,
        Unary::Atan => math::atan,
        Unary::Sinh => math::sinh,
        Unary::Cosh => math::cosh,
        Unary::Tanh => math::tanh,
        Unary::Asinh => math::asinh,
        Unary::Acosh => math::acosh,
        Unary::Atanh => math::atanh,
        Unary::Erf => math::erf,
        Unary::Sigmoid => math::sigmoid,
        Unary::SoftPlus => math::softplus,
        Unary::Floor => math::floor,
        Unary::Ceil => math::ceil,
        Unary::Round => math::round_half_even,
        Unary::RoundHalfAway => math::round_half_away,
        _ => return Err(misfit(function)),
    })
}

fn unary_f64(function: Unary) -> Result<fn(f64) -> f64, String> {
    Ok(match function {
        Unary::Neg => |x| -x,
        Unary::Abs => math::abs_f64,
        Unary::Sign => math::sign_f64,
        Unary::Exp => math::exp_f64,
        Unary::ExpOrZero => math::exp_or_zero_f64,
        Unary::ExpM1 => math::exp_m1_f64,
        Unary::Ln => math::ln_f64,
        Unary::Ln1p => math::ln_1p_f64,
        Unary::Sqrt => math::sqrt_f64,
        Unary::Sin => math::sin_f64,
        Unary::Cos => math::cos_f64,
        Unary::Tan => math::tan_f64,
        Unary::Asin => math::asin_f64,
        Unary::Acos => math::acos_f64,
        Unary::Atan => math::atan_f64,
        Unary::Sinh => math::sinh_f64,
        Unary::Cosh => math::cosh_f64,
        Unary::Tanh => math::tanh_f64,
        Unary::Asinh => math::asinh_f64,
        Unary::Acosh => math::acosh_f64,
        Unary::Atanh => math::atanh_f64,
        Unary::Erf => math::erf_f64,
        Unary::Sigmoid => math::sigmoid_f64,
        Unary::SoftPlus => math::softplus_f64,
        Unary::Floor => math::floor_f64,
        Unary::Ceil => math::ceil_f64,
        Unary::Round => math::round_half_even_f64,
        Unary::RoundHalfAway => math::round_half_away_f64,
        _ => return Err(misfit(function)),
    })
}

/// `out = function(a, b)`, lane by lane.
pub fn binary(function: Binary, a: &Lanes, b: &Lanes, out: &mut Lanes) -> Result<(), String> {
    macro_rules! compare {
        ($a:ident, $b:ident, $out:ident) => {
            match function {
                Binary::Eq => pairs($a, $b, $out, |x, y| x == y),
                Binary::Ne => pairs($a, $b, $out, |x, y| x != y),
                Binary::Lt => pairs($a, $b, $out, |x, y| x < y),
                Binary::Le => pairs($a, $b, $out, |x, y| x <= y),
                _ => return Err(misfit(function)),
            }
        };
    }
    match (a, b, out) {
        (Lanes::F32(a), Lanes::F32(b), Lanes::F32(out)) => match function {
            Binary::Add => pairs(a, b, out, |x, y| x + y),
            Binary::Sub => pairs(a, b, out, |x, y| x - y),
            Binary::Mul => pairs(a, b, out, |x, y| x * y),
            _ => pairs(a, b, out, binary_f32(function)?),
        },
        (Lanes::F64(a), Lanes::F64(b), Lanes::F64(out)) => pairs(a, b, out, binary_f64(function)?),
        (Lanes::I32(a), Lanes::I32(b), Lanes::I32(out)) => pairs(a, b, out, binary_i32(function)?),
        (Lanes::I64(a), Lanes::I64(b), Lanes::I64(out)) => pairs(a, b, out, binary_i64(function)?),
        (Lanes::U64(a), Lanes::U64(b), Lanes::U64(out)) => pairs(a, b, out, binary_u64(function)?),
        (Lanes::Bool(a), Lanes::Bool(b), Lanes::Bool(out)) => pairs(a, b, out, binary_bool(function)?),
        (Lanes::F32(a), Lanes::F32(b), Lanes::Bool(out)) => compare!(a, b, out),
        (Lanes::F64(a), Lanes::F64(b), Lanes::Bool(out)) => compare!(a, b, out),
        (Lanes::I32(a), Lanes::I32(b), Lanes::Bool(out)) => compare!(a, b, out),
        (Lanes::I64(a), Lanes::I64(b), Lanes::Bool(out)) => compare!(a, b, out),
        (Lanes::U64(a), Lanes::U64(b), Lanes::Bool(out)) => compare!(a, b, out),
        _ => return Err(misfit(function)),
    }
    Ok(())
}

fn binary_f32(function: Binary) -> Result<fn(f32, f32) -> f32, String> {
    Ok(match function {
        Binary::Div => |x, y| x / y,
        Binary::FloorDiv => |x, y| math::floor(x / y),
        Binary::Rem => math::rem,
        Binary::FloorMod => |x, y| {
            let rest = math::rem(x, y);
            if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
        },
        Binary::Min => math::min,
        Binary::Max => math::max,
        Binary::Pow => math::pow,
        _ => return Err(misfit(function)),
    })
}

fn binary_f64(function: Binary) -> Result<fn(f64, f64) -> f64, String> {
    Ok(match function {
        Binary::Add => |x, y| x + y,
        Binary::Sub => |x, y| x - y,
        Binary::Mul => |x, y| x * y,
        Binary::Div => |x, y| x / y,
        Binary::FloorDiv => |x, y| math::floor_f64(x / y),
        Binary::Rem => math::rem_f64,
        Binary::FloorMod => |x, y| {
            let rest = math::rem_f64(x, y);
            if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
        },
        Binary::Min => math::min_f64,
        Binary::Max => math::max_f64,
        Binary::Pow => math::pow_f64,
        _ => return Err(misfit(function)),
    })
}

macro_rules! integer {
    ($name:ident, $t:ty, $div:path, $floor_div:path, $rem:path, $floor_mod:path, $pow:path) => {
        fn $name(function: Binary) -> Result<fn($t, $t) -> $t, String> {
            const WIDTH: $t = <$t>::BITS as $t;
            Ok(match function {
                Binary::Add => <$t>::wrapping_add,
                Binary::Sub => <$t>::wrapping_sub,
                Binary::Mul => <$t>::wrapping_mul,
                Binary::Div => $div,
                Binary::FloorDiv => $floor_div,
                Binary::Rem => $rem,
                Binary::FloorMod => $floor_mod,
                Binary::Min => <$t>::min,
                Binary::Max => <$t>::max,
                Binary::Pow => $pow,
                Binary::And => |x, y| x & y,
                Binary::Or => |x, y| x | y,
                Binary::Xor => |x, y| x ^ y,
                Binary::Shl => |x, y| if (0..WIDTH).contains(&y) { x << y } else { 0 },
                Binary::Shr => |x, y| if (0..WIDTH).contains(&y) { x >> y } else { x >> (WIDTH - 1) >> 1 },
                _ => return Err(misfit(function)),
            })
        }
    };
}

integer!(
    binary_i32,
    i32,
    math::trunc_div_i32,
    math::floor_div_i32,
    math::trunc_mod_i32,
    math::floor_mod_i32,
    math::pow_i32
);
integer!(
    binary_i64,
    i64,
    math::trunc_div_i64,
    math::floor_div_i64,
    math::trunc_mod_i64,
    math::floor_mod_i64,
    math::pow_i64
);
integer!(binary_u64, u64, math::div_u64, math::div_u64, math::mod_u64, math::mod_u64, math::pow_u64);

fn binary_bool(function: Binary) -> Result<fn(bool, bool) -> bool, String> {
    Ok(match function {
        Binary::And | Binary::Min | Binary::Mul => |x, y| x & y,
        Binary::Or | Binary::Max => |x, y| x | y,
        Binary::Xor | Binary::Ne => |x, y| x != y,
        Binary::Eq => |x, y| x == y,
        Binary::Lt => |x, y| !x & y,
        Binary::Le => |x, y| !x | y,
        _ => return Err(misfit(function)),
    })
}

/// `out = if condition { a } else { b }`, lane by lane.
pub fn select(condition: &Lanes, a: &Lanes, b: &Lanes, out: &mut Lanes) -> Result<(), String> {
    let Lanes::Bool(condition) = condition else { return Err("a selection by another type than boolean".to_owned()) };
    macro_rules! choose {
        ($a:ident, $b:ident, $out:ident) => {
            for (((out, c), a), b) in $out.iter_mut().zip(condition).zip($a).zip($b) {
                *out = if *c { *a } else { *b };
            }
        };
    }
    match (a, b, out) {
        (Lanes::F32(a), Lanes::F32(b), Lanes::F32(out)) => choose!(a, b, out),
        (Lanes::F64(a), Lanes::F64(b), Lanes::F64(out)) => choose!(a, b, out),
        (Lanes::I32(a), Lanes::I32(b), Lanes::I32(out)) => choose!(a, b, out),
        (Lanes::I64(a), Lanes::I64(b), Lanes::I64(out)) => choose!(a, b, out),
        (Lanes::U64(a), Lanes::U64(b), Lanes::U64(out)) => choose!(a, b, out),
        (Lanes::Bool(a), Lanes::Bool(b), Lanes::Bool(out)) => choose!(a, b, out),
        _ => return Err("a selection between different types".to_owned()),
    }
    Ok(())
}

/// `out = a` converted to the domain of `element`, as Convert does it.
pub fn convert(element: ElementType, a: &Lanes, out: &mut Lanes) -> Result<(), String> {
    match a {
        Lanes::F32(a) => convert_from(element, a, out, &FLOAT32),
        Lanes::F64(a) => convert_from(element, a, out, &FLOAT64),
        Lanes::I32(a) => convert_from(element, a, out, &INT32),
        Lanes::I64(a) => convert_from(element, a, out, &INT64),
        Lanes::U64(a) => convert_from(element, a, out, &UINT64),
        Lanes::Bool(a) => convert_from(element, a, out, &BOOLEAN),
    }
}

/// How one scalar type becomes the others. Integers are taken from the 64-bit value modulo their width.
struct From<T> {
    to_f32: fn(T) -> f32,
    /// To f32 on the way to a narrower float: rounded so that the next rounding is right.
    to_single: fn(T) -> f32,
    to_f64: fn(T) -> f64,
    to_i8: fn(T) -> i32,
    to_u8: fn(T) -> i32,
    to_i16: fn(T) -> i32,
    to_u16: fn(T) -> i32,
    to_i32: fn(T) -> i32,
    to_i64: fn(T) -> i64,
    to_u64: fn(T) -> u64,
    to_bool: fn(T) -> bool,
}

macro_rules! from_float {
    ($t:ty, $single:expr, $i8:path, $u8:path, $i16:path, $u16:path, $i32:path, $i64:path, $u64:path, $bool:path) => {
        From {
            to_f32: |x: $t| x as f32,
            to_single: $single,
            to_f64: |x| x as f64,
            to_i8: |x| i32::from($i8(x)),
            to_u8: |x| i32::from($u8(x)),
            to_i16: |x| i32::from($i16(x)),
            to_u16: |x| i32::from($u16(x)),
            to_i32: $i32,
            to_i64: $i64,
            to_u64: $u64,
            to_bool: |x| $bool(x) != 0,
        }
    };
}

const FLOAT32: From<f32> = from_float!(
    f32,
    |x| x,
    cast::f32_to_i8,
    cast::f32_to_u8,
    cast::f32_to_i16,
    cast::f32_to_u16,
    cast::f32_to_i32,
    cast::f32_to_i64,
    cast::f32_to_u64,
    cast::f32_to_bool
);
const FLOAT64: From<f64> = from_float!(
    f64,
    cast::f64_to_f32_odd,
    cast::f64_to_i8,
    cast::f64_to_u8,
    cast::f64_to_i16,
    cast::f64_to_u16,
    cast::f64_to_i32,
    cast::f64_to_i64,
    cast::f64_to_u64,
    cast::f64_to_bool
);

macro_rules! from_integer {
    ($t:ty) => {
        From {
            to_f32: |x: $t| x as f32,
            to_single: |x| x as f32,
            to_f64: |x| x as f64,
            to_i8: |x| i32::from(x as i8),
            to_u8: |x| i32::from(x as u8),
            to_i16: |x| i32::from(x as i16),
            to_u16: |x| i32::from(x as u16),
            to_i32: |x| x as i32,
            to_i64: |x| x as i64,
            to_u64: |x| x as u64,
            to_bool: |x| x != 0,
        }
    };
}

const INT32: From<i32> = from_integer!(i32);
const INT64: From<i64> = from_integer!(i64);
const UINT64: From<u64> = from_integer!(u64);

const BOOLEAN: From<bool> = From {
    to_f32: |x| f32::from(u8::from(x)),
    to_single: |x| f32::from(u8::from(x)),
    to_f64: |x| f64::from(u8::from(x)),
    to_i8: i32::from,
    to_u8: i32::from,
    to_i16: i32::from,
    to_u16: i32::from,
    to_i32: i32::from,
    to_i64: i64::from,
    to_u64: u64::from,
    to_bool: |x| x,
};

fn convert_from<T: Copy>(element: ElementType, a: &[T], out: &mut Lanes, from: &From<T>) -> Result<(), String> {
    use ElementType::*;
    match (element, out) {
        (F32, Lanes::F32(out)) => each(a, out, from.to_f32),
        (F16 | Bf16 | F8e4m3 | F8e5m2 | F8e8m0 | F4e2m1 | Nf4, Lanes::F32(out)) => {
            let round = rounding(element)?;
            each(a, out, |x| round((from.to_single)(x)));
        }
        (F64, Lanes::F64(out)) => each(a, out, from.to_f64),
        (I8, Lanes::I32(out)) => each(a, out, from.to_i8),
        (U8, Lanes::I32(out)) => each(a, out, from.to_u8),
        (I16, Lanes::I32(out)) => each(a, out, from.to_i16),
        (U16, Lanes::I32(out)) => each(a, out, from.to_u16),
        (I32, Lanes::I32(out)) => each(a, out, from.to_i32),
        (U1, Lanes::I32(out)) => each(a, out, |x| (from.to_u8)(x) & 1),
        (U2, Lanes::I32(out)) => each(a, out, |x| (from.to_u8)(x) & 3),
        (U3, Lanes::I32(out)) => each(a, out, |x| (from.to_u8)(x) & 7),
        (U4, Lanes::I32(out)) => each(a, out, |x| (from.to_u8)(x) & 15),
        (U6, Lanes::I32(out)) => each(a, out, |x| (from.to_u8)(x) & 63),
        (I4, Lanes::I32(out)) => each(a, out, |x| (((from.to_u8)(x) & 15) ^ 8) - 8),
        (U32, Lanes::I64(out)) => each(a, out, |x| (from.to_i64)(x) & 0xffff_ffff),
        (I64, Lanes::I64(out)) => each(a, out, from.to_i64),
        (U64, Lanes::U64(out)) => each(a, out, from.to_u64),
        (Boolean, Lanes::Bool(out)) => each(a, out, from.to_bool),
        (element, _) => return Err(format!("a conversion to {element} into a block of another type")),
    }
    Ok(())
}

fn rounding(element: ElementType) -> Result<fn(f32) -> f32, String> {
    use ElementType::*;
    Ok(match element {
        F16 => |x| cast::f16_bits_to_f32(cast::f32_to_f16_bits(x)),
        Bf16 => |x| cast::bf16_bits_to_f32(cast::f32_to_bf16_bits(x)),
        F8e4m3 => |x| cast::f8e4m3_bits_to_f32(cast::f32_to_f8e4m3_bits(x)),
        F8e5m2 => |x| cast::f8e5m2_bits_to_f32(cast::f32_to_f8e5m2_bits(x)),
        F8e8m0 => |x| cast::f8e8m0_bits_to_f32(cast::f32_to_f8e8m0_bits(x)),
        F4e2m1 => |x| cast::f4e2m1_bits_to_f32(cast::f32_to_f4e2m1_bits(x)),
        Nf4 => |x| cast::nf4_bits_to_f32(cast::f32_to_nf4_bits(x)),
        other => return Err(format!("{other} is no narrow floating-point type")),
    })
}
