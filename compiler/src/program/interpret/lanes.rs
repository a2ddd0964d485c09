//! A block of scalars of one type.

use crate::program::nest::{Const, ScalarType};

/// Values of one scalar node for consecutive points of the block's axis.
#[derive(Clone, Debug)]
pub enum Lanes {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    Bool(Vec<bool>),
}

impl Lanes {
    /// `count` zeros.
    pub fn zeros(ty: ScalarType, count: usize) -> Lanes {
        match ty {
            ScalarType::F32 => Lanes::F32(vec![0.0; count]),
            ScalarType::F64 => Lanes::F64(vec![0.0; count]),
            ScalarType::I32 => Lanes::I32(vec![0; count]),
            ScalarType::I64 => Lanes::I64(vec![0; count]),
            ScalarType::U64 => Lanes::U64(vec![0; count]),
            ScalarType::Bool => Lanes::Bool(vec![false; count]),
        }
    }

    /// Sets all lanes.
    pub fn fill(&mut self, value: Const) {
        match (self, value) {
            (Lanes::F32(v), Const::F32(c)) => v.fill(c),
            (Lanes::F64(v), Const::F64(c)) => v.fill(c),
            (Lanes::I32(v), Const::I32(c)) => v.fill(c),
            (Lanes::I64(v), Const::I64(c)) => v.fill(c),
            (Lanes::U64(v), Const::U64(c)) => v.fill(c),
            (Lanes::Bool(v), Const::Bool(c)) => v.fill(c),
            _ => {}
        }
    }

    /// Copies the lanes of `part` from another block of the same type.
    pub fn copy_part(&mut self, from: &Lanes, part: std::ops::Range<usize>) {
        macro_rules! copy {
            ($a:ident, $b:ident) => {
                if let (Some(a), Some(b)) = ($a.get_mut(part.clone()), $b.get(part)) {
                    a.copy_from_slice(b);
                }
            };
        }
        match (self, from) {
            (Lanes::F32(a), Lanes::F32(b)) => copy!(a, b),
            (Lanes::F64(a), Lanes::F64(b)) => copy!(a, b),
            (Lanes::I32(a), Lanes::I32(b)) => copy!(a, b),
            (Lanes::I64(a), Lanes::I64(b)) => copy!(a, b),
            (Lanes::U64(a), Lanes::U64(b)) => copy!(a, b),
            (Lanes::Bool(a), Lanes::Bool(b)) => copy!(a, b),
            _ => {}
        }
    }

    /// An integer lane as an index.
    pub fn index(&self, lane: usize) -> i64 {
        match self {
            Lanes::I32(v) => v.get(lane).map_or(0, |x| i64::from(*x)),
            Lanes::I64(v) => v.get(lane).copied().unwrap_or(0),
            Lanes::U64(v) => v.get(lane).map_or(0, |x| i64::try_from(*x).unwrap_or(i64::MAX)),
            Lanes::Bool(v) => v.get(lane).map_or(0, |x| i64::from(*x)),
            Lanes::F32(_) | Lanes::F64(_) => 0,
        }
    }

    /// Makes lane `lane` of `from` the first lane of this block.
    pub fn rotate_to_front(&mut self, from: &Lanes, lane: usize) {
        macro_rules! first {
            ($a:ident, $b:ident) => {
                if let (Some(a), Some(b)) = ($a.first_mut(), $b.get(lane)) {
                    *a = *b;
                }
            };
        }
        match (self, from) {
            (Lanes::F32(a), Lanes::F32(b)) => first!(a, b),
            (Lanes::F64(a), Lanes::F64(b)) => first!(a, b),
            (Lanes::I32(a), Lanes::I32(b)) => first!(a, b),
            (Lanes::I64(a), Lanes::I64(b)) => first!(a, b),
            (Lanes::U64(a), Lanes::U64(b)) => first!(a, b),
            (Lanes::Bool(a), Lanes::Bool(b)) => first!(a, b),
            _ => {}
        }
    }
}
