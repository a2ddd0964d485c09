//! Loop nests over typed scalar expressions.

use super::BufferId;
use crate::dim::Dim;
use crate::element::ElementType;

/// The greatest distance of elements that vectors gather from a row: code for a nest does, and passes count on it.
pub const STRIDE: i64 = 4;

/// A scalar node of a nest: its position in [`Nest::nodes`].
pub type Node = u32;

/// The type in which a scalar is computed. Narrow element types widen when loaded and narrow when stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScalarType {
    /// f32, and f16, bf16, f8, f4, nf4 widened.
    F32,
    /// f64.
    F64,
    /// i32 and every integer type that fits in it.
    I32,
    /// i64 and u32.
    I64,
    /// u64.
    U64,
    /// boolean.
    Bool,
}

impl ScalarType {
    /// The type in which elements of `element` are computed; strings have none.
    pub fn of(element: ElementType) -> Option<ScalarType> {
        use ElementType::*;
        Some(match element {
            Boolean => ScalarType::Bool,
            F32 | F16 | Bf16 | Nf4 | F8e4m3 | F8e5m2 | F8e8m0 | F4e2m1 => ScalarType::F32,
            F64 => ScalarType::F64,
            I4 | I8 | I16 | I32 | U1 | U2 | U3 | U4 | U6 | U8 | U16 => ScalarType::I32,
            I64 | U32 => ScalarType::I64,
            U64 => ScalarType::U64,
            String => return None,
        })
    }

    /// The element type that holds every value of the scalar type.
    pub fn element(self) -> ElementType {
        match self {
            ScalarType::F32 => ElementType::F32,
            ScalarType::F64 => ElementType::F64,
            ScalarType::I32 => ElementType::I32,
            ScalarType::I64 => ElementType::I64,
            ScalarType::U64 => ElementType::U64,
            ScalarType::Bool => ElementType::Boolean,
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, ScalarType::F32 | ScalarType::F64)
    }
}

/// A scalar constant.
#[derive(Clone, Copy, Debug)]
pub enum Const {
    /// f32.
    F32(f32),
    /// f64.
    F64(f64),
    /// i32.
    I32(i32),
    /// i64.
    I64(i64),
    /// u64.
    U64(u64),
    /// boolean.
    Bool(bool),
}

impl Const {
    /// `value` in the given type: rounded to it, or truncated toward zero.
    pub fn of(scalar: ScalarType, value: f64) -> Const {
        match scalar {
            ScalarType::F32 => Const::F32(value as f32),
            ScalarType::F64 => Const::F64(value),
            ScalarType::I32 => Const::I32(value as i32),
            ScalarType::I64 => Const::I64(value as i64),
            ScalarType::U64 => Const::U64(value as u64),
            ScalarType::Bool => Const::Bool(value != 0.0),
        }
    }

    /// Its type.
    pub fn scalar_type(self) -> ScalarType {
        match self {
            Const::F32(_) => ScalarType::F32,
            Const::F64(_) => ScalarType::F64,
            Const::I32(_) => ScalarType::I32,
            Const::I64(_) => ScalarType::I64,
            Const::U64(_) => ScalarType::U64,
            Const::Bool(_) => ScalarType::Bool,
        }
    }

    /// Type and bits: what makes two constants the same (NaN equals NaN, 0.0 differs from -0.0).
    pub fn bits(self) -> (ScalarType, u64) {
        let bits = match self {
            Const::F32(v) => u64::from(v.to_bits()),
            Const::F64(v) => v.to_bits(),
            Const::I32(v) => v as u32 as u64,
            Const::I64(v) => v as u64,
            Const::U64(v) => v,
            Const::Bool(v) => u64::from(v),
        };
        (self.scalar_type(), bits)
    }
}

impl PartialEq for Const {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

/// Functions of one scalar; the result has the operand's type unless noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names are the definitions; those with a choice are documented
pub enum Unary {
    /// Integers wrap.
    Neg,
    /// Integers wrap.
    Abs,
    /// -1, 0 or 1; NaN stays NaN.
    Sign,
    Exp,
    /// exp(x), and 0 where that would be subnormal: processors take a hundred times as long to compute with it. Infinite a
    /// little before exp(x) is: for differences from the greatest.
    ExpOrZero,
    /// exp(x) - 1, accurate near zero.
    ExpM1,
    Ln,
    /// ln(1 + x), accurate near zero.
    Ln1p,
    Sqrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// ln(1 + exp(x)), without overflow.
    SoftPlus,
    Floor,
    Ceil,
    /// Ties to even.
    Round,
    /// Ties away from zero.
    RoundHalfAway,
    /// Boolean.
    Not,
    /// Integers, bitwise.
    BitNot,
    /// To boolean.
    IsNan,
    /// To boolean.
    IsFinite,
    /// To boolean: +infinity.
    IsPosInf,
    /// To boolean: -infinity.
    IsNegInf,
}

/// Functions of two scalars of one type; the result has their type unless noted. Integers wrap on overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Floats: IEEE. Integers: rounded toward zero; a zero divisor gives zero.
    Div,
    /// Integers: rounded to minus infinity; a zero divisor gives zero.
    FloorDiv,
    /// Sign of the dividend (C `fmod`); a zero integer divisor gives zero.
    Rem,
    /// Sign of the divisor (Python `%`); a zero integer divisor gives zero.
    FloorMod,
    /// NaN where either operand is NaN.
    Min,
    /// NaN where either operand is NaN.
    Max,
    /// Integers: by repeated multiplication, wrapping; a negative exponent gives the truncated quotient.
    Pow,
    /// Boolean or bitwise.
    And,
    /// Boolean or bitwise.
    Or,
    /// Boolean or bitwise.
    Xor,
    /// Bits shifted out are lost; a shift by the width or more gives zero.
    Shl,
    /// Arithmetic for signed types; a shift by the width or more gives the sign.
    Shr,
    /// To boolean.
    Eq,
    /// To boolean.
    Ne,
    /// To boolean.
    Lt,
    /// To boolean.
    Le,
}

impl Binary {
    /// Whether the result is boolean whatever the operands are.
    pub fn is_comparison(self) -> bool {
        matches!(self, Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le)
    }
}

/// A condition on an index expression: `0 <= value < limit`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// Index expression.
    pub value: Dim,
    /// Size.
    pub limit: Dim,
}

/// An element of a buffer by its logical index.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The buffer.
    pub buffer: BufferId,
    /// One index expression per logical dimension.
    pub index: Vec<Dim>,
}

impl Access {
    /// Whether the index depends on axes and sizes only, not on data.
    pub fn is_direct(&self) -> bool {
        let mut direct = true;
        self.index.iter().for_each(|dim| scalars_of(dim, &mut |_| direct = false));
        direct
    }
}

/// One scalar computation; operands are earlier nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// A constant.
    Const(Const),
    /// An index expression, as i64.
    Index(Dim),
    /// An element, widened to its scalar type; `otherwise` where one of the bounds does not hold (padding).
    Load {
        /// Which element.
        access: Access,
        /// All must hold, else nothing is read.
        bounds: Vec<Bound>,
        /// The value outside the bounds, of the same scalar type; required where there are bounds.
        otherwise: Option<Node>,
    },
    /// A function of one scalar.
    Unary(Unary, Node),
    /// A function of two scalars.
    Binary(Binary, Node, Node),
    /// The second where the first (a boolean) is true, else the third.
    Select(Node, Node, Node),
    /// The value after a conversion to an element type (wrap, round, truncate as Convert does), widened again.
    Cast(ElementType, Node),
    /// The result of the nest's reduction.
    Reduced,
}

impl Scalar {
    /// Calls `visit` for every index expression.
    pub fn for_each_dim(&self, visit: &mut dyn FnMut(&Dim)) {
        match self {
            Scalar::Index(dim) => visit(dim),
            Scalar::Load { access, bounds, .. } => {
                access.index.iter().for_each(&mut *visit);
                for bound in bounds {
                    visit(&bound.value);
                    visit(&bound.limit);
                }
            }
            _ => {}
        }
    }

    /// Calls `visit` for every operand.
    pub fn for_each_operand(&self, visit: &mut dyn FnMut(Node)) {
        self.for_each_dim(&mut |dim| scalars_of(dim, visit));
        match self {
            Scalar::Const(_) | Scalar::Reduced | Scalar::Index(_) => {}
            Scalar::Load { otherwise, .. } => otherwise.iter().for_each(|node| visit(*node)),
            Scalar::Unary(_, a) | Scalar::Cast(_, a) => visit(*a),
            Scalar::Binary(_, a, b) => {
                visit(*a);
                visit(*b);
            }
            Scalar::Select(c, a, b) => {
                visit(*c);
                visit(*a);
                visit(*b);
            }
        }
    }
}

/// Calls `visit` for every scalar node that an index expression uses.
pub fn scalars_of(dim: &Dim, visit: &mut dyn FnMut(Node)) {
    dim.for_each_atom(&mut |atom| {
        if let crate::dim::Atom::Scalar(node) = atom {
            visit(*node);
        }
    });
}

/// Whether an index depends on an axis: itself, or by the nodes that do, as [`Nest::depends_on`] says.
pub fn place_depends(depends: &[bool], dim: &Dim, axis: usize) -> bool {
    let mut found = dim.uses_axis(axis);
    scalars_of(dim, &mut |node| found |= depends.get(node as usize).copied().unwrap_or(false));
    found
}

/// How a reduction combines values. The result for no values is the identity of the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReduceFn {
    /// Sum; 0 for none. Integers wrap.
    Sum,
    /// Product; 1 for none. Integers wrap.
    Prod,
    /// Maximum, NaN where one is NaN; -infinity (floats) or the lowest value for none.
    Max,
    /// Minimum, NaN where one is NaN; infinity (floats) or the highest value for none.
    Min,
    /// Boolean conjunction; true for none.
    All,
    /// Boolean disjunction; false for none.
    Any,
}

/// The reduction of a nest over its reduction axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// How values combine.
    pub function: ReduceFn,
    /// The value of one iteration.
    pub value: Node,
}

/// A loop axis with its extent.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Number of iterations. That of a reduction axis may be a scalar that is the same for the whole reduction (the
    /// elements of a bag, the pixels of a region), clamped between zero and a size.
    pub extent: Dim,
}

/// For every point of the map axes: reduce `reduction.value` over the reduction axes, then store `result`.
///
/// Nodes that do not depend on [`Scalar::Reduced`] may be evaluated per point of all axes, the others per point of the
/// map axes. No node that is evaluated after the reduction uses a reduction axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Nest {
    /// Map axes, slowest first, then reduction axes. [`Dim::axis`] counts through both.
    pub axes: Vec<Axis>,
    /// How many of the axes are map axes.
    pub maps: usize,
    /// Scalar nodes in an order in which operands come first.
    pub nodes: Vec<Scalar>,
    /// The reduction; `None` where there are no reduction axes.
    pub reduction: Option<Reduction>,
    /// The node that is stored.
    pub result: Node,
    /// Where; distinct points of the map axes store to distinct elements, also where the index is loaded or computed,
    /// and all of them lie inside the buffer. The stored value is cast to the buffer's type.
    pub store: Access,
}

impl Nest {
    /// A nest that moves elements unchanged, all of its axes being map axes.
    pub fn moving(axes: Vec<Axis>, from: Access, to: Access) -> Nest {
        let load = Scalar::Load { access: from, bounds: Vec::new(), otherwise: None };
        Nest { maps: axes.len(), axes, nodes: vec![load], reduction: None, result: 0, store: to }
    }

    /// Appends the buffers the nest reads and writes.
    pub fn accesses(&self, reads: &mut Vec<BufferId>, writes: &mut Vec<BufferId>) {
        reads.extend(self.loads().map(|access| access.buffer));
        writes.push(self.store.buffer);
    }

    /// All loads.
    pub fn loads(&self) -> impl Iterator<Item = &Access> {
        self.nodes.iter().filter_map(|node| match node {
            Scalar::Load { access, .. } => Some(access),
            _ => None,
        })
    }

    /// Nodes on which `roots` depend, themselves included, without what lies behind the reduction; in order.
    pub fn needed(&self, roots: &[Node]) -> Vec<usize> {
        let mut wanted = vec![false; self.nodes.len()];
        let mark = |wanted: &mut Vec<bool>, node: Node| {
            wanted.get_mut(node as usize).into_iter().for_each(|slot| *slot = true);
        };
        roots.iter().for_each(|root| mark(&mut wanted, *root));
        for (i, node) in self.nodes.iter().enumerate().rev() {
            if wanted.get(i) == Some(&true) {
                node.for_each_operand(&mut |operand| mark(&mut wanted, operand));
            }
        }
        (0..wanted.len()).filter(|i| wanted.get(*i) == Some(&true)).collect()
    }

    /// The nodes that say how often reduction axes run.
    pub fn counts(&self) -> Vec<Node> {
        let mut counts = Vec::new();
        self.axes.iter().for_each(|axis| scalars_of(&axis.extent, &mut |node| counts.push(node)));
        counts
    }

    /// The nodes that say what is stored and where.
    pub fn stored(&self) -> Vec<Node> {
        let mut stored = vec![self.result];
        self.store.index.iter().for_each(|dim| scalars_of(dim, &mut |node| stored.push(node)));
        stored
    }

    /// Whether data decides neither how often axes run nor where the result is stored.
    pub fn is_direct(&self) -> bool {
        self.counts().is_empty() && self.store.is_direct()
    }

    /// Whether the result follows from the nest alone: it loads nothing and depends on no run-time size.
    pub fn is_closed(&self) -> bool {
        let mut closed = true;
        let mut look = |dim: &Dim| {
            dim.for_each_atom(&mut |atom| closed &= !matches!(atom, crate::dim::Atom::Variable(_)));
        };
        self.axes.iter().for_each(|axis| look(&axis.extent));
        for node in &self.nodes {
            if let Scalar::Index(dim) = node {
                look(dim);
            }
        }
        closed && self.loads().next().is_none()
    }

    /// By node, whether its value depends on an axis.
    pub fn depends_on(&self, axis: usize) -> Vec<bool> {
        let mut depends: Vec<bool> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let mut found = false;
            node.for_each_dim(&mut |dim| found |= dim.uses_axis(axis));
            node.for_each_operand(&mut |operand| found |= depends.get(operand as usize).copied().unwrap_or(false));
            depends.push(found);
        }
        depends
    }

    /// For every node, whether it is evaluated after the reduction (depends on [`Scalar::Reduced`]).
    pub fn after_reduction(&self) -> Vec<bool> {
        let mut after = vec![false; self.nodes.len()];
        for (i, node) in self.nodes.iter().enumerate() {
            let mut depends = matches!(node, Scalar::Reduced);
            node.for_each_operand(&mut |operand| depends |= after.get(operand as usize).copied().unwrap_or(false));
            after[i] = depends;
        }
        after
    }
}
