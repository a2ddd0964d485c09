//! How element and scalar types are written in Rust: storage, widening loads, conversions.

use crate::element::ElementType;
use crate::program::nest::{Const, ScalarType};
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// The type of one stored element; types below a byte take one byte each.
pub fn storage(element: ElementType) -> TokenStream {
    use ElementType::*;
    match element {
        Boolean | U1 | U2 | U3 | U4 | U6 | U8 | Nf4 | F4e2m1 | String => quote!(u8),
        I4 | I8 => quote!(i8),
        I16 => quote!(i16),
        I32 => quote!(i32),
        I64 => quote!(i64),
        U16 => quote!(u16),
        U32 => quote!(u32),
        U64 => quote!(u64),
        F32 => quote!(f32),
        F64 => quote!(f64),
        F16 => quote!(rt::F16),
        Bf16 => quote!(rt::Bf16),
        F8e4m3 => quote!(rt::F8e4m3),
        F8e5m2 => quote!(rt::F8e5m2),
        F8e8m0 => quote!(rt::F8e8m0),
    }
}

/// The variant of the runtime's `Element`.
pub fn element(element: ElementType) -> TokenStream {
    use ElementType::*;
    match element {
        Boolean => quote!(rt::Element::Bool),
        Bf16 => quote!(rt::Element::Bf16),
        F16 => quote!(rt::Element::F16),
        F32 => quote!(rt::Element::F32),
        F64 => quote!(rt::Element::F64),
        I4 => quote!(rt::Element::I4),
        I8 => quote!(rt::Element::I8),
        I16 => quote!(rt::Element::I16),
        I32 => quote!(rt::Element::I32),
        I64 => quote!(rt::Element::I64),
        U1 => quote!(rt::Element::U1),
        U2 => quote!(rt::Element::U2),
        U3 => quote!(rt::Element::U3),
        U4 => quote!(rt::Element::U4),
        U6 => quote!(rt::Element::U6),
        U8 => quote!(rt::Element::U8),
        U16 => quote!(rt::Element::U16),
        U32 => quote!(rt::Element::U32),
        U64 => quote!(rt::Element::U64),
        Nf4 => quote!(rt::Element::Nf4),
        F8e4m3 => quote!(rt::Element::F8e4m3),
        F8e5m2 => quote!(rt::Element::F8e5m2),
        F8e8m0 => quote!(rt::Element::F8e8m0),
        F4e2m1 => quote!(rt::Element::F4e2m1),
        String => quote!(rt::Element::String),
    }
}

/// The type of a computed scalar.
pub fn scalar(ty: ScalarType) -> TokenStream {
    match ty {
        ScalarType::F32 => quote!(f32),
        ScalarType::F64 => quote!(f64),
        ScalarType::I32 => quote!(i32),
        ScalarType::I64 => quote!(i64),
        ScalarType::U64 => quote!(u64),
        ScalarType::Bool => quote!(bool),
    }
}

/// A stored element, widened to its scalar type.
pub fn widen(element: ElementType, stored: TokenStream) -> TokenStream {
    use ElementType::*;
    match element {
        F32 | F64 | I32 | I64 | U64 | String => stored,
        Boolean => quote!((#stored != 0)),
        I4 | I8 | I16 | U1 | U2 | U3 | U4 | U6 | U8 | U16 => quote!(i32::from(#stored)),
        U32 => quote!(i64::from(#stored)),
        F16 | Bf16 | F8e4m3 | F8e5m2 | F8e8m0 => quote!(#stored.to_f32()),
        Nf4 => quote!(rt::cast::nf4_bits_to_f32(#stored)),
        F4e2m1 => quote!(rt::cast::f4e2m1_bits_to_f32(#stored)),
    }
}

/// A scalar that lies in the domain of `element`, as it is stored.
pub fn narrow(element: ElementType, value: TokenStream) -> TokenStream {
    use ElementType::*;
    match element {
        F32 | F64 | I32 | I64 | U64 | String => value,
        Boolean => quote!(u8::from(#value)),
        I4 | I8 => quote!((#value as i8)),
        I16 => quote!((#value as i16)),
        U1 | U2 | U3 | U4 | U6 | U8 => quote!((#value as u8)),
        U16 => quote!((#value as u16)),
        U32 => quote!((#value as u32)),
        F16 => quote!(rt::F16::from_f32(#value)),
        Bf16 => quote!(rt::Bf16::from_f32(#value)),
        F8e4m3 => quote!(rt::F8e4m3::from_f32(#value)),
        F8e5m2 => quote!(rt::F8e5m2::from_f32(#value)),
        F8e8m0 => quote!(rt::F8e8m0::from_f32(#value)),
        Nf4 => quote!(rt::cast::f32_to_nf4_bits(#value)),
        F4e2m1 => quote!(rt::cast::f32_to_f4e2m1_bits(#value)),
    }
}

/// A scalar of type `from` converted to the domain of `to`, in the scalar type of `to`.
pub fn convert(from: ScalarType, to: ElementType, value: TokenStream) -> TokenStream {
    use ElementType::*;
    let float = match from {
        ScalarType::F32 => Some("f32"),
        ScalarType::F64 => Some("f64"),
        _ => None,
    };
    // Integers are taken from the value modulo their width; floats through the runtime's defined conversions.
    let integer = |target: &str| -> TokenStream {
        let ty = quote::format_ident!("{target}");
        match (float, from) {
            (Some(float), _) => {
                let function = quote::format_ident!("{float}_to_{target}");
                quote!(rt::cast::#function(#value))
            }
            (None, ScalarType::Bool) => quote!(#ty::from(#value)),
            (None, _) => quote!((#value as #ty)),
        }
    };
    match to {
        F32 => float32(from, value),
        F64 if from == ScalarType::F64 => value,
        F64 if from == ScalarType::Bool => quote!(f64::from(u8::from(#value))),
        F64 => quote!((#value as f64)),
        F16 | Bf16 | F8e4m3 | F8e5m2 | F8e8m0 | F4e2m1 | Nf4 => {
            let single = match from {
                ScalarType::F64 => quote!(rt::cast::f64_to_f32_odd(#value)),
                _ => float32(from, value),
            };
            widen(to, narrow(to, single))
        }
        I32 if from == ScalarType::I32 => value,
        I64 if from == ScalarType::I64 => value,
        U64 if from == ScalarType::U64 => value,
        I32 => integer("i32"),
        I64 => integer("i64"),
        U64 => integer("u64"),
        I8 | I16 | U8 | U16 if from == ScalarType::Bool => quote!(i32::from(#value)),
        I8 => widen(to, integer("i8")),
        U8 => widen(to, integer("u8")),
        I16 => widen(to, integer("i16")),
        U16 => widen(to, integer("u16")),
        U32 if from == ScalarType::Bool => quote!(i64::from(#value)),
        U32 => {
            let wide = integer("i64");
            quote!((#wide & 0xffff_ffff))
        }
        Boolean => truth(from, value),
        U1 | U2 | U3 | U4 | U6 | I4 => {
            let mask = Literal::i32_unsuffixed((1 << to.bits()) - 1);
            let byte = integer("u8");
            match to {
                I4 => quote!((((i32::from(#byte) & 15) ^ 8) - 8)),
                _ => quote!((i32::from(#byte) & #mask)),
            }
        }
        String => value,
    }
}

fn float32(from: ScalarType, value: TokenStream) -> TokenStream {
    match from {
        ScalarType::F32 => value,
        ScalarType::Bool => quote!(f32::from(u8::from(#value))),
        _ => quote!((#value as f32)),
    }
}

fn truth(from: ScalarType, value: TokenStream) -> TokenStream {
    match from {
        ScalarType::Bool => value,
        ScalarType::F32 | ScalarType::F64 => quote!((#value != 0.0)),
        _ => quote!((#value != 0)),
    }
}

/// A literal of a scalar constant; exact, also for infinities, NaN and negative zero.
pub fn constant(value: Const) -> TokenStream {
    match value {
        Const::F32(v) if v.is_finite() => signed(v.is_sign_negative(), Literal::f32_suffixed(v.abs())),
        Const::F32(v) if v == f32::INFINITY => quote!(f32::INFINITY),
        Const::F32(v) if v == f32::NEG_INFINITY => quote!(f32::NEG_INFINITY),
        Const::F32(_) => quote!(f32::NAN),
        Const::F64(v) if v.is_finite() => signed(v.is_sign_negative(), Literal::f64_suffixed(v.abs())),
        Const::F64(v) if v == f64::INFINITY => quote!(f64::INFINITY),
        Const::F64(v) if v == f64::NEG_INFINITY => quote!(f64::NEG_INFINITY),
        Const::F64(_) => quote!(f64::NAN),
        Const::I32(i32::MIN) => quote!(i32::MIN),
        Const::I64(i64::MIN) => quote!(i64::MIN),
        Const::I32(v) => signed(v < 0, Literal::i32_suffixed(v.wrapping_abs())),
        Const::I64(v) => signed(v < 0, Literal::i64_suffixed(v.wrapping_abs())),
        Const::U64(v) => Literal::u64_suffixed(v).into_token(),
        Const::Bool(v) => quote!(#v),
    }
}

fn signed(negative: bool, literal: Literal) -> TokenStream {
    if negative { quote!((-#literal)) } else { quote!(#literal) }
}

trait IntoToken {
    fn into_token(self) -> TokenStream;
}

impl IntoToken for Literal {
    fn into_token(self) -> TokenStream {
        quote!(#self)
    }
}
