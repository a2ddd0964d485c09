//! Scalar functions as Rust expressions: the same runtime functions that the interpreter calls.

use super::types;
use crate::program::nest::{Binary, Scalar, ScalarType, Unary};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};

/// A function of one scalar; `None` where it is not defined for the type.
pub fn unary(function: Unary, ty: ScalarType, a: &TokenStream) -> Option<TokenStream> {
    use Unary::*;
    if ty.is_float() {
        return float_unary(function, ty, a);
    }
    Some(match (function, ty) {
        (Not | BitNot, ScalarType::Bool) => quote!((!#a)),
        (IsNan | IsPosInf | IsNegInf, _) => quote!(false),
        (IsFinite, _) => quote!(true),
        (_, ScalarType::Bool) => return None,
        (BitNot, _) => quote!((!#a)),
        (Neg, _) => quote!(#a.wrapping_neg()),
        (Abs, ScalarType::U64) => a.clone(),
        (Abs, _) => quote!(#a.wrapping_abs()),
        (Sign, ScalarType::U64) => quote!(u64::from(#a != 0)),
        (Sign, _) => quote!(#a.signum()),
        _ => return None,
    })
}

fn float_unary(function: Unary, ty: ScalarType, a: &TokenStream) -> Option<TokenStream> {
    use Unary::*;
    let wide = types::scalar(ty);
    let name = match function {
        Neg => return Some(quote!((-#a))),
        IsNan => return Some(quote!(#a.is_nan())),
        IsFinite => return Some(quote!(#a.is_finite())),
        IsPosInf => return Some(quote!((#a == #wide::INFINITY))),
        IsNegInf => return Some(quote!((#a == #wide::NEG_INFINITY))),
        Not | BitNot => return None,
        Ln1p => "ln_1p".to_owned(),
        ExpM1 => "exp_m1".to_owned(),
        ExpOrZero => "exp_or_zero".to_owned(),
        Round => "round_half_even".to_owned(),
        RoundHalfAway => "round_half_away".to_owned(),
        other => format!("{other:?}").to_ascii_lowercase(),
    };
    let suffix = if ty == ScalarType::F64 { "_f64" } else { "" };
    let name = format_ident!("{name}{suffix}");
    Some(quote!(rt::math::#name(#a)))
}

/// A function of two scalars of one type; `None` where it is not defined for the type.
pub fn binary(function: Binary, ty: ScalarType, a: &TokenStream, b: &TokenStream) -> Option<TokenStream> {
    binary_of(function, ty, a, b, &quote!(rt::math))
}

/// The same for operands of which [`is_near`] is true.
pub fn binary_near(function: Binary, ty: ScalarType, a: &TokenStream, b: &TokenStream) -> Option<TokenStream> {
    is_near(function, ty, a, b)?;
    binary_of(function, ty, a, b, &quote!(rt::math::near))
}

/// Whether vectors have a function of these operands: a condition, for functions of which it depends on the operands.
pub fn is_near(function: Binary, ty: ScalarType, a: &TokenStream, b: &TokenStream) -> Option<TokenStream> {
    use Binary::*;
    let name = match (function, ty) {
        (Rem | FloorMod, ScalarType::F32) => quote!(is_near_f32),
        (Div | FloorDiv | Rem | FloorMod, ScalarType::I32) => quote!(is_near_i32),
        (Div | FloorDiv | Rem | FloorMod, ScalarType::I64) => quote!(is_near_i64),
        _ => return None,
    };
    Some(quote!(rt::math::near::#name(#a, #b)))
}

fn binary_of(
    function: Binary,
    ty: ScalarType,
    a: &TokenStream,
    b: &TokenStream,
    math: &TokenStream,
) -> Option<TokenStream> {
    use Binary::*;
    if ty == ScalarType::Bool {
        return Some(match function {
            And | Min | Mul => quote!((#a & #b)),
            Or | Max => quote!((#a | #b)),
            Xor | Ne => quote!((#a != #b)),
            Eq => quote!((#a == #b)),
            Lt => quote!((!#a & #b)),
            Le => quote!((!#a | #b)),
            _ => return None,
        });
    }
    match function {
        Eq => return Some(quote!((#a == #b))),
        Ne => return Some(quote!((#a != #b))),
        Lt => return Some(quote!((#a < #b))),
        Le => return Some(quote!((#a <= #b))),
        _ => {}
    }
    if ty.is_float() { float_binary(function, ty, a, b, math) } else { integer_binary(function, ty, a, b, math) }
}

fn float_binary(
    function: Binary,
    ty: ScalarType,
    a: &TokenStream,
    b: &TokenStream,
    math: &TokenStream,
) -> Option<TokenStream> {
    use Binary::*;
    let suffix = if ty == ScalarType::F64 { "_f64" } else { "" };
    let call = |name: &str| {
        let name = format_ident!("{name}{suffix}");
        quote!(#math::#name)
    };
    Some(match function {
        Add => quote!((#a + #b)),
        Sub => quote!((#a - #b)),
        Mul => quote!((#a * #b)),
        Div => quote!((#a / #b)),
        FloorDiv => {
            let floor = call("floor");
            quote!(#floor(#a / #b))
        }
        FloorMod => {
            let rem = call("rem");
            quote!({ let rest = #rem(#a, #b); if rest != 0.0 && (rest < 0.0) != (#b < 0.0) { rest + #b } else { rest } })
        }
        Rem | Min | Max | Pow => {
            let name = call(&format!("{function:?}").to_ascii_lowercase());
            quote!(#name(#a, #b))
        }
        _ => return None,
    })
}

fn integer_binary(
    function: Binary,
    ty: ScalarType,
    a: &TokenStream,
    b: &TokenStream,
    math: &TokenStream,
) -> Option<TokenStream> {
    use Binary::*;
    let unsigned = ty == ScalarType::U64;
    let name = types::scalar(ty);
    let call = |signed: &str, natural: &str| {
        let name =
            if unsigned { format_ident!("{natural}_u64") } else { format_ident!("{signed}_{}", name.to_string()) };
        quote!(#math::#name(#a, #b))
    };
    let width = proc_macro2::Literal::u32_unsuffixed(if ty == ScalarType::I32 { 32 } else { 64 });
    let inside = if unsigned { quote!(#b < #width) } else { quote!((0..#width).contains(&#b)) };
    Some(match function {
        Add => quote!(#a.wrapping_add(#b)),
        Sub => quote!(#a.wrapping_sub(#b)),
        Mul => quote!(#a.wrapping_mul(#b)),
        Div => call("trunc_div", "div"),
        FloorDiv => call("floor_div", "div"),
        Rem => call("trunc_mod", "mod"),
        FloorMod => call("floor_mod", "mod"),
        Pow => call("pow", "pow"),
        Min => quote!(#a.min(#b)),
        Max => quote!(#a.max(#b)),
        And => quote!((#a & #b)),
        Or => quote!((#a | #b)),
        Xor => quote!((#a ^ #b)),
        Shl => quote!((if #inside { #a << #b } else { 0 })),
        Shr if unsigned => quote!((if #inside { #a >> #b } else { 0 })),
        Shr => quote!((if #inside { #a >> #b } else { #a >> (#width - 1) })),
        Eq | Ne | Lt | Le => return None,
    })
}

/// Floating-point operations of one evaluation of a node: for the published count.
pub fn cost(node: &Scalar) -> u64 {
    match node {
        Scalar::Unary(Unary::Neg | Unary::Not | Unary::BitNot, _) => 0,
        Scalar::Unary(..) | Scalar::Binary(..) => 1,
        _ => 0,
    }
}
