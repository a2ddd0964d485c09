//! The transform along one axis, as sums of products with constant tables.
//!
//! Short and prime lengths are one product with a matrix of roots of unity. Longer ones are split: with `n = a * b`,
//! transforms of length a, products with roots of unity (twiddle factors), and transforms of length b take `a + b`
//! products per value instead of n. Lengths that are known at run time only look the roots up in one table.

use super::table::{constant, root, rotation};
use super::{Values, half};
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::op::operands::MapAxes;
use crate::op::window::{reduce, reduction_axis};
use crate::program::BufferId;
use crate::program::builder::{Builder, NestBuilder};
use crate::program::nest::{Binary, Bound, Const, Node, ReduceFn, Unary};
use include_ir_runtime::__private::v1::math;
use std::f64::consts::TAU;

/// Lengths up to this one are not split.
const SHORT: i64 = 64;
/// Longest transform whose matrix is stored.
const LONGEST_MATRIX: i64 = 512;
/// Roots in the tables of first transforms that are multiplied with twiddle factors, at most.
const MOST_ROOTS: i64 = 16 * 1024;
/// Rows, at least, that are worth such tables.
const LEAST_ROWS: i64 = 16;

/// A tensor that is read or written along an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub buffer: BufferId,
    pub axis: usize,
    pub values: Values,
}

impl Place {
    /// The index of part `part` of value `at` of a row.
    fn index(&self, row: &[Dim], at: &Dim, part: &Dim) -> Vec<Dim> {
        let mut index = row.to_vec();
        index.insert(self.axis.min(index.len()), at.clone());
        if self.values == Values::Complex {
            index.push(part.clone());
        }
        index
    }
}

/// One transform of every row.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Sizes of all dimensions but the axis.
    pub rows: Vec<Dim>,
    pub from: Place,
    /// Number of values to be read; values behind them are zero.
    pub taps: Dim,
    pub to: Place,
    /// Number of values to be computed.
    pub results: Dim,
    /// Length of the transform. An inverse transform to real values reads half of the spectrum.
    pub length: Dim,
    pub inverse: bool,
    /// The inverse transform is divided by the root of the length instead of the length.
    pub unitary: bool,
}

/// A buffer and an index into it.
type Element = (BufferId, Vec<Dim>);

/// A nest over all rows and some more axes.
struct Grid<'b, 'a> {
    n: NestBuilder<'b, 'a>,
    row: Vec<Dim>,
    more: Vec<Dim>,
    zero: Const,
}

impl Grid<'_, '_> {
    /// The index along one of the further axes.
    fn axis(&self, i: usize) -> Dim {
        self.more.get(i).cloned().unwrap_or_default()
    }

    /// An index into the present row.
    fn at(&self, more: &[Dim]) -> Vec<Dim> {
        [self.row.as_slice(), more].concat()
    }

    /// Stores the sum over `axes` of the products of two elements.
    fn sum_products(mut self, axes: [Dim; 2], factors: [Element; 2], to: Element) -> Result<(), Diagnostic> {
        let [a, b] = factors;
        let (a, b) = (self.n.load(a.0, &a.1)?, self.n.load(b.0, &b.1)?);
        let product = self.n.binary(Binary::Mul, a, b);
        let sum = reduce(&mut self.n, ReduceFn::Sum, &axes, product);
        self.n.store(to.0, &to.1, sum);
        Ok(())
    }
}

impl Line {
    /// Appends the nests.
    ///
    /// # Errors
    /// Tables that are too large.
    pub fn transform(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        match self.length.as_const() {
            Some(length) => match split(length) {
                Some((a, b)) => self.in_two_steps(builder, a, b),
                None if length <= LONGEST_MATRIX => self.by_matrix(builder, length),
                None => self.by_roots(builder),
            },
            None => self.by_roots(builder),
        }
    }

    fn element(&self, builder: &Builder) -> Result<ElementType, Diagnostic> {
        Ok(builder.scalar_type(self.from.buffer)?.element())
    }

    /// The root of unity for `k / length` turns in the direction of the transform.
    fn root(&self, k: i64, length: i64) -> (f64, f64) {
        root(if self.inverse { k } else { -k }, length)
    }

    /// What results are multiplied with.
    fn scale(&self, length: i64) -> f64 {
        match (self.inverse, self.unitary) {
            (false, _) => 1.0,
            (true, false) => 1.0 / length as f64,
            (true, true) => 1.0 / math::sqrt_f64(length as f64),
        }
    }

    /// Whether half of a spectrum is read.
    fn reads_half(&self) -> bool {
        self.to.values == Values::Real
    }

    fn grid<'b, 'a>(&self, builder: &'b mut Builder<'a>, more: &[Dim]) -> Result<Grid<'b, 'a>, Diagnostic> {
        let zero = Const::of(builder.scalar_type(self.from.buffer)?, 0.0);
        let mut maps = MapAxes::default();
        let row = maps.axes(&self.rows);
        let more = maps.axes(more);
        Ok(Grid { n: builder.nest(&maps.extents), row, more, zero })
    }

    /// One product with the matrix of all roots: `[value, part, result, part]`.
    fn by_matrix(&self, builder: &mut Builder, length: i64) -> Result<(), Diagnostic> {
        let most = if self.reads_half() { half(&self.length) } else { self.length.clone() };
        let taps = self.taps.minimum(&most);
        let rows = taps.upper_bound().max(0);
        let results = self.results.as_const().unwrap_or(length);
        let scale = self.scale(length);
        let (parts, to_parts) = (parts(self.from.values), parts(self.to.values));
        let dims = [rows, parts, results, to_parts];
        let table = constant(builder, self.element(builder)?, dims, |[j, part, m, to]| {
            // The other half of the spectrum adds the conjugate.
            let twice = self.reads_half() && j > 0 && 2 * j < length;
            rotation(self.root((j * m) % length.max(1), length), part, to) * if twice { 2.0 * scale } else { scale }
        })?;
        let mut grid = self.grid(builder, &[self.results.clone(), Dim::constant(to_parts)])?;
        let (j, part) = (reduction_axis(&mut grid.n, &taps), reduction_axis(&mut grid.n, &Dim::constant(parts)));
        let (m, to) = (grid.axis(0), grid.axis(1));
        let value = (self.from.buffer, self.from.index(&grid.row, &j, &part));
        let result = (self.to.buffer, self.to.index(&grid.row, &m, &to));
        let factor = (table, vec![j.clone(), part.clone(), m, to]);
        grid.sum_products([j, part], [value, factor], result)
    }

    /// A value of the operand, zero behind the last one; values behind the middle of a halved spectrum are conjugates.
    fn value(&self, grid: &mut Grid, at: &Dim, part: &Dim) -> Result<Node, Diagnostic> {
        let (n, row) = (&mut grid.n, grid.row.as_slice());
        let mirrored = self.length.clone() - at;
        let position = if self.reads_half() { at.minimum(&mirrored) } else { at.clone() };
        let stored = if self.reads_half() { half(&self.length) } else { self.length.clone() };
        let index = self.from.index(row, &position, part);
        let value = if (self.taps.clone() - &stored).range().min >= 0 {
            n.load(self.from.buffer, &index)?
        } else {
            let zero = n.constant(grid.zero);
            let bound = Bound { value: position.clone(), limit: self.taps.clone() };
            n.load_within(self.from.buffer, &index, vec![bound], zero)?
        };
        if !self.reads_half() {
            return Ok(value);
        }
        let (one, part, at, mirrored) = (n.constant(Const::I64(1)), n.index(part), n.index(at), n.index(&mirrored));
        let (imaginary, behind) = (n.binary(Binary::Eq, part, one), n.binary(Binary::Lt, mirrored, at));
        let conjugate = n.binary(Binary::And, imaginary, behind);
        let negative = n.unary(Unary::Neg, value);
        Ok(n.select(conjugate, negative, value))
    }

    /// The operand as `[rows, b, a, part]`: value `b * i + j` at `[j, i]`.
    fn gathered(&self, builder: &mut Builder, a: i64, b: i64) -> Result<BufferId, Diagnostic> {
        let parts = Dim::constant(parts(self.from.values));
        let more = [Dim::constant(b), Dim::constant(a), parts];
        let to = self.staged(builder, &more)?;
        let mut grid = self.grid(builder, &more)?;
        let (j, i, part) = (grid.axis(0), grid.axis(1), grid.axis(2));
        let at = i.clone() * b + j;
        let value = self.value(&mut grid, &at, &part)?;
        let index = grid.at(&grid.more);
        grid.n.store(to, &index, value);
        Ok(to)
    }

    fn staged(&self, builder: &mut Builder, more: &[Dim]) -> Result<BufferId, Diagnostic> {
        let element = self.element(builder)?;
        Ok(builder.temporary(element, [self.rows.as_slice(), more].concat()))
    }

    /// `out[rows, u, m, to] = sum over k and part of x[rows, u, k, part] * table[k, part, m, to]`; or of `x[rows, k, u, part]` if it
    /// is `crossed`, and with `table[u, k, part, m, to]` if each unit has its own. Columns of the table have any order, as the result.
    fn product(
        &self,
        builder: &mut Builder,
        (x, crossed): (BufferId, bool),
        table: BufferId,
        units: i64,
    ) -> Result<BufferId, Diagnostic> {
        let dims = builder.dims(table);
        let [own @ .., k, parts, first, second] = dims.as_slice() else {
            return Err(Diagnostic::internal("a table lacks an axis"));
        };
        let more = [Dim::constant(units), first.clone(), second.clone()];
        let out = self.staged(builder, &more)?;
        let mut grid = self.grid(builder, &more)?;
        let (k, part) = (reduction_axis(&mut grid.n, k), reduction_axis(&mut grid.n, parts));
        let (unit, m, to) = (grid.axis(0), grid.axis(1), grid.axis(2));
        let own = own.iter().map(|_| unit.clone());
        let factor = (table, own.chain([k.clone(), part.clone(), m, to]).collect());
        let at = if crossed { [k.clone(), unit, part.clone()] } else { [unit, k.clone(), part.clone()] };
        let value = (x, grid.at(&at));
        let result = (out, grid.at(&grid.more));
        grid.sum_products([k, part], [value, factor], result)?;
        Ok(out)
    }

    /// With `j = b * j1 + j2` and `m = m1 + a * m2`, the root for `j * m` is that of length a for `j1 * m1`, times that of
    /// length n for `j2 * m1`, times that of length b for `j2 * m2`.
    fn in_two_steps(&self, builder: &mut Builder, a: i64, b: i64) -> Result<(), Diagnostic> {
        let (length, element) = (a * b, self.element(builder)?);
        let (parts, to_parts) = (parts(self.from.values), parts(self.to.values));
        let gathered = self.gathered(builder, a, b)?;
        let merged = self.merges(length * a);
        let turned = if merged {
            let table = constant(builder, element, [b, a, parts, a, 2], |[j2, j1, part, m, to]| {
                rotation(self.root((b * j1 + j2) * m, length), part, to)
            })?;
            self.product(builder, (gathered, false), table, b)?
        } else {
            let table = constant(builder, element, [a, parts, a, 2], |[j, part, m, to]| {
                rotation(self.root(j * m, a), part, to)
            })?;
            let inner = self.product(builder, (gathered, false), table, b)?;
            self.turned(builder, inner, a, b)?
        };
        let results = self.results.as_const().unwrap_or(length);
        let scale = self.scale(length);
        let columns = (results + a - 1) / a;
        let second = constant(builder, element, [b, 2, to_parts, columns], |[j, part, to, m]| {
            rotation(self.root(j * m, b), part, to) * scale
        })?;
        let outer = self.product(builder, (turned, merged), second, a)?;
        // Whole columns, and the first values of the next one.
        let whole = results / a;
        self.ordered(builder, outer, a, (0, whole, a))?;
        if results % a > 0 { self.ordered(builder, outer, a, (whole, 1, results % a)) } else { Ok(()) }
    }

    /// Stores values `m1 + a * m2` of the result from `[rows, m1, part, m2]`, of so many m2 from the first one on, so many m1: a matrix
    /// is transposed.
    fn ordered(
        &self,
        builder: &mut Builder,
        from: BufferId,
        a: i64,
        (first, columns, values): (i64, i64, i64),
    ) -> Result<(), Diagnostic> {
        let more = [columns, values, parts(self.to.values)].map(Dim::constant);
        let mut grid = self.grid(builder, &more)?;
        let (m1, m2, to) = (grid.axis(1), grid.axis(0) + first, grid.axis(2));
        let value = grid.n.load(from, &grid.at(&[m1.clone(), to.clone(), m2.clone()]))?;
        let index = self.to.index(&grid.row, &(m2 * a + m1), &to);
        grid.n.store(self.to.buffer, &index, value);
        Ok(())
    }

    /// Whether the products with twiddle factors are part of the first transforms, which then have a table for each of them: where
    /// this has few elements, and rows enough read it.
    fn merges(&self, roots: i64) -> bool {
        let rows = self.rows.iter().try_fold(1i64, |rows, dim| rows.checked_mul(dim.as_const()?));
        roots <= MOST_ROOTS && rows.is_some_and(|rows| rows >= LEAST_ROWS)
    }

    /// `[rows, j2, m1, part]` times the root for `j2 * m1`, as `[rows, m1, j2, part]`.
    fn turned(&self, builder: &mut Builder, inner: BufferId, a: i64, b: i64) -> Result<BufferId, Diagnostic> {
        // The factors of the same part and of the other one.
        let table = constant(builder, self.element(builder)?, [a, b, 2, 2], |[m, j, to, other]| {
            rotation(self.root(j * m, a * b), (to + other) % 2, to)
        })?;
        let more = [Dim::constant(a), Dim::constant(b), Dim::constant(2)];
        let out = self.staged(builder, &more)?;
        let mut grid = self.grid(builder, &more)?;
        let (m, j, to) = (grid.axis(0), grid.axis(1), grid.axis(2));
        let mut terms = Vec::with_capacity(2);
        for (other, part) in [to.clone(), Dim::constant(1) - &to].into_iter().enumerate() {
            let value = grid.n.load(inner, &grid.at(&[j.clone(), m.clone(), part]))?;
            let factor = grid.n.load(table, &[m.clone(), j.clone(), to.clone(), Dim::from(other)])?;
            terms.push(grid.n.binary(Binary::Mul, value, factor));
        }
        let [same, other] = terms.as_slice() else { return Err(Diagnostic::internal("a product lacks a term")) };
        let sum = grid.n.binary(Binary::Add, *same, *other);
        let index = grid.at(&grid.more);
        grid.n.store(out, &index, sum);
        Ok(out)
    }

    /// A sum whose roots are looked up, for lengths that are not known or have too large a prime factor.
    fn by_roots(&self, builder: &mut Builder) -> Result<(), Diagnostic> {
        let from = if self.reads_half() { self.whole(builder)? } else { self.from };
        let taps = if self.reads_half() { self.length.clone() } else { self.taps.minimum(&self.length) };
        let table = self.roots(builder)?;
        let to_parts = parts(self.to.values);
        let mut grid = self.grid(builder, &[self.results.clone(), Dim::constant(to_parts)])?;
        let parts = Dim::constant(parts(from.values));
        let (j, part) = (reduction_axis(&mut grid.n, &taps), reduction_axis(&mut grid.n, &parts));
        let (m, to) = (grid.axis(0), grid.axis(1));
        let value = (from.buffer, from.index(&grid.row, &j, &part));
        let result = (self.to.buffer, self.to.index(&grid.row, &m, &to));
        let factor = (table, vec![(j.clone() * &m).modulo(&self.length), part.clone(), to]);
        grid.sum_products([j, part], [value, factor], result)
    }

    /// The whole spectrum of which the operand is one half.
    fn whole(&self, builder: &mut Builder) -> Result<Place, Diagnostic> {
        let more = [self.length.clone(), Dim::constant(2)];
        let to = self.staged(builder, &more)?;
        let mut grid = self.grid(builder, &more)?;
        let (at, part) = (grid.axis(0), grid.axis(1));
        let value = self.value(&mut grid, &at, &part)?;
        let index = grid.at(&grid.more);
        grid.n.store(to, &index, value);
        Ok(Place { buffer: to, axis: self.rows.len(), values: Values::Complex })
    }

    /// The factors of part `from` in part `to` for all roots: `[k, from, to]`.
    fn roots(&self, builder: &mut Builder) -> Result<BufferId, Diagnostic> {
        let element = self.element(builder)?;
        if let Some(length) = self.length.as_const() {
            let scale = self.scale(length);
            return constant(builder, element, [length, 2, 2], |[k, from, to]| {
                rotation(self.root(k, length), from, to) * scale
            });
        }
        let table = builder.temporary(element, vec![self.length.clone(), Dim::constant(2), Dim::constant(2)]);
        builder.map(table, |n, i| {
            let [k, from, to] = i else { return Err(Diagnostic::internal("a table lacks dimensions")) };
            let mut wide = |dim: &Dim| {
                let index = n.index(dim);
                n.cast(ElementType::F64, index)
            };
            let (k, length) = (wide(k), wide(&self.length));
            let turn = n.constant(Const::F64(if self.inverse { TAU } else { -TAU }));
            let (angle, same) = (n.binary(Binary::Mul, turn, k), n.index(&(from.clone() - to)));
            let angle = n.binary(Binary::Div, angle, length);
            let (cos, sin, zero) = (n.unary(Unary::Cos, angle), n.unary(Unary::Sin, angle), n.constant(Const::I64(0)));
            let negative = n.unary(Unary::Neg, sin);
            let (is_same, is_less) = (n.binary(Binary::Eq, same, zero), n.binary(Binary::Lt, same, zero));
            let other = n.select(is_less, sin, negative);
            let mut factor = n.select(is_same, cos, other);
            if self.inverse {
                let divisor = if self.unitary { n.unary(Unary::Sqrt, length) } else { length };
                factor = n.binary(Binary::Div, factor, divisor);
            }
            Ok(n.cast(element, factor))
        })?;
        Ok(table)
    }
}

fn parts(values: Values) -> i64 {
    match values {
        Values::Real => 1,
        Values::Complex => 2,
    }
}

/// The factors of a length that is worth splitting: the most even ones, the smaller one first.
fn split(length: i64) -> Option<(i64, i64)> {
    let mut a = 2;
    let mut best = None;
    while a <= LONGEST_MATRIX && a * a <= length {
        if length % a == 0 {
            best = Some((a, length / a));
        }
        a += 1;
    }
    best.filter(|(_, b)| length > SHORT && *b <= LONGEST_MATRIX)
}
