//! The memory a step touches: which parameters its function has, and which regions the call passes.

use super::types;
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::plan::{Plan, Space, capacity, element_bytes};
use crate::program::{BufferId, Program, Shape, shape_of};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};
use std::collections::{BTreeMap, BTreeSet};

/// One parameter of a step function.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its name.
    pub name: Ident,
    /// Memory, first byte, element type and shape: equal regions share a parameter.
    pub space: Space,
    /// First byte.
    pub offset: usize,
    /// Element type.
    pub element: ElementType,
    /// Elements.
    pub shape: Shape,
    /// Whether the step writes it.
    pub written: bool,
    /// Whether the number of elements is known at compile time.
    pub fixed: bool,
}

/// The parameters of a step and the buffers they stand for.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// In order of the function's parameters.
    pub params: Vec<Param>,
    of: BTreeMap<BufferId, (usize, Dim)>,
    numbers: BTreeMap<BufferId, Ident>,
}

impl Views {
    /// The views of a step that reads and writes these buffers.
    ///
    /// # Errors
    /// A plan in which a written region overlaps another one.
    pub fn new(program: &Program, plan: &Plan, reads: &[BufferId], writes: &[BufferId]) -> Result<Self, Diagnostic> {
        let mut views = Views::default();
        let (mut seen, mut counts) = (BTreeSet::new(), BTreeMap::new());
        for (buffer, written) in writes.iter().map(|b| (*b, true)).chain(reads.iter().map(|b| (*b, false))) {
            if seen.insert(buffer) {
                views.add(program, plan, buffer, written, &mut counts)?;
            }
        }
        views.check()?;
        // Inputs first, results last: written ones were added first, so that an in-place operand finds its result.
        let mut order: Vec<usize> = (0..views.params.len()).collect();
        order.sort_by_key(|i| (views.params[*i].written, views.params[*i].space == Space::Weights, *i));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, old)| place[*old] = new);
        views.params = order.iter().map(|i| views.params[*i].clone()).collect();
        views.of.values_mut().for_each(|(at, _)| *at = place[*at]);
        Ok(views)
    }

    /// The same for a step that has variables in place of these buffers.
    #[must_use]
    pub fn with_numbers(mut self, buffers: &[BufferId]) -> Self {
        let name = |i: usize| if i == 0 { format_ident!("s") } else { format_ident!("s{}", i + 1) };
        self.numbers = buffers.iter().enumerate().map(|(i, buffer)| (*buffer, name(i))).collect();
        self
    }

    /// The variable that stands for a buffer.
    pub fn number(&self, buffer: BufferId) -> Option<&Ident> {
        self.numbers.get(&buffer)
    }

    fn add(
        &mut self,
        program: &Program,
        plan: &Plan,
        id: BufferId,
        written: bool,
        counts: &mut BTreeMap<&'static str, usize>,
    ) -> Result<(), Diagnostic> {
        let buffer = program.buffer(id);
        let placement =
            plan.placement(program, id).ok_or_else(|| Diagnostic::internal(format!("b{} has no memory", id.0)))?;
        let storage = program.buffer(buffer.layout.storage);
        let size = element_bytes(buffer.element).ok_or_else(|| Diagnostic::internal("a string buffer"))?;
        let fixed = buffer.dims.iter().chain(&buffer.layout.strides).all(|dim| dim.as_usize().is_some());
        let offset = buffer.layout.offset.as_usize();
        let whole = || -> Result<(Shape, usize, Dim), Diagnostic> {
            Ok((Shape::Run(capacity(program, buffer.layout.storage)?), 0, buffer.layout.offset.clone()))
        };
        let (shape, start, base) = match (placement.space, offset) {
            (Space::Arena | Space::State, Some(offset)) if fixed && storage.kept.is_none() => {
                match shape_of(&buffer.dims, &buffer.layout.strides) {
                    Some(shape) => (shape, offset, Dim::constant(0)),
                    None => whole()?,
                }
            }
            _ => whole()?,
        };
        let param = Param {
            name: format_ident!("x"),
            space: placement.space,
            offset: placement.offset + start * size,
            element: if placement.space == Space::Nowhere { buffer.element } else { storage.element },
            shape,
            written,
            fixed: storage.dims.iter().all(|dim| dim.as_usize().is_some()),
        };
        if storage.element != buffer.element && placement.space != Space::Nowhere {
            return Err(Diagnostic::internal(format!("b{} views a storage of another element type", id.0)));
        }
        let key = |p: &Param| (p.space, p.offset, p.shape, p.element);
        if let Some(same) = self.params.iter().position(|p| key(p) == key(&param) && p.space != Space::Nowhere) {
            self.of.insert(id, (same, base));
            return Ok(());
        }
        let stem = match (param.space, written) {
            (Space::Weights, _) => "w",
            (Space::State, _) => "state",
            (_, true) => "y",
            _ => "x",
        };
        let count = counts.entry(stem).or_insert(0);
        *count += 1;
        let name = if *count == 1 { format_ident!("{stem}") } else { format_ident!("{stem}{count}") };
        self.of.insert(id, (self.params.len(), base));
        self.params.push(Param { name, ..param });
        Ok(())
    }

    /// Written regions overlap nothing: the generated code would not compile otherwise.
    fn check(&self) -> Result<(), Diagnostic> {
        for (i, a) in self.params.iter().enumerate() {
            for b in &self.params[..i] {
                let memory = a.space == b.space && matches!(a.space, Space::Arena | Space::State);
                if memory && (a.written || b.written) && !a.disjoint(b) {
                    return Err(Diagnostic::internal("a step writes memory that it reads under another layout"));
                }
            }
        }
        Ok(())
    }

    /// The parameter of a buffer.
    pub fn param(&self, buffer: BufferId) -> Option<&Param> {
        self.of.get(&buffer).and_then(|(at, _)| self.params.get(*at))
    }

    /// The parameter's name.
    pub fn name(&self, buffer: BufferId) -> Ident {
        self.param(buffer).map_or_else(|| format_ident!("missing"), |param| param.name.clone())
    }

    /// Element index in the parameter of a logical index.
    pub fn address(&self, program: &Program, buffer: BufferId, index: &[Dim]) -> Dim {
        let strides = &program.buffer(buffer).layout.strides;
        let base = self.of.get(&buffer).map_or(Dim::constant(0), |(_, base)| base.clone());
        index.iter().zip(strides).fold(base, |sum, (i, stride)| sum + &(i.clone() * stride))
    }

    /// Element index in the parameter of an index into the whole storage.
    pub fn rebase(&self, program: &Program, buffer: BufferId, address: &Dim) -> Dim {
        let base = self.of.get(&buffer).map_or(Dim::constant(0), |(_, base)| base.clone());
        address.clone() - &program.buffer(buffer).layout.offset + &base
    }
}

impl Param {
    /// Elements of one run.
    pub fn run(&self) -> usize {
        match self.shape {
            Shape::Run(len) => len,
            Shape::Rows { row, .. } => row,
        }
    }

    /// Whether the caller gives a slice instead of an array.
    pub fn is_slice(&self) -> bool {
        matches!(self.space, Space::Input(_)) && !self.fixed
    }

    fn spans(&self) -> (usize, usize, usize, usize) {
        let size = element_bytes(self.element).unwrap_or(1);
        let (row, stride, rows) = match self.shape {
            Shape::Run(len) => (len, 1, 1),
            Shape::Rows { row, stride, rows } => (row, stride, rows),
        };
        (self.offset, row * size, stride * size, self.offset + (stride * (rows.max(1) - 1) + row) * size)
    }

    /// The runtime's own rule, which the generated code is compiled against.
    fn disjoint(&self, other: &Param) -> bool {
        let ((a, a_row, a_stride, a_end), (b, b_row, b_stride, b_end)) = (self.spans(), other.spans());
        if a_end <= b || b_end <= a {
            return true;
        }
        if a_stride != b_stride || a_stride == 0 {
            return false;
        }
        let distance = if b >= a { (b - a) % a_stride } else { (a_stride - (a - b) % a_stride) % a_stride };
        distance >= a_row && distance + b_row <= a_stride
    }

    /// The parameter's type.
    pub fn ty(&self) -> TokenStream {
        let element = types::storage(self.element);
        if self.is_slice() {
            return quote!(&[#element]);
        }
        match self.shape {
            Shape::Run(len) => {
                let len = Literal::usize_unsuffixed(len);
                if self.written { quote!(&mut [#element; #len]) } else { quote!(&[#element; #len]) }
            }
            Shape::Rows { row, stride, rows } => {
                let [row, stride, rows] = [row, stride, rows].map(Literal::usize_unsuffixed);
                let view = if self.written { quote!(rt::RowsMut) } else { quote!(rt::Rows) };
                quote!(#view<'_, #element, #row, #stride, #rows>)
            }
        }
    }

    /// The declaration in the function's signature.
    pub fn declaration(&self) -> TokenStream {
        let (name, ty) = (&self.name, self.ty());
        let by_value = self.written && matches!(self.shape, Shape::Rows { .. });
        if by_value { quote!(mut #name: #ty) } else { quote!(#name: #ty) }
    }

    /// The region to borrow from arena or state.
    pub fn region(&self) -> TokenStream {
        let element = types::storage(self.element);
        let offset = Literal::usize_unsuffixed(self.offset);
        match self.shape {
            Shape::Run(len) => {
                let len = Literal::usize_unsuffixed(len);
                let region = if self.written { quote!(rt::W) } else { quote!(rt::R) };
                quote!(#region<[#element; #len], #offset>)
            }
            Shape::Rows { row, stride, rows } => {
                let [row, stride, rows] = [row, stride, rows].map(Literal::usize_unsuffixed);
                let region = if self.written { quote!(rt::WS) } else { quote!(rt::RS) };
                quote!(#region<#element, #row, #stride, #rows, #offset>)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_become_runs_or_rows() {
        let shape = |dims: &[i64], strides: &[i64]| {
            let dims: Vec<Dim> = dims.iter().map(|d| Dim::constant(*d)).collect();
            let strides: Vec<Dim> = strides.iter().map(|d| Dim::constant(*d)).collect();
            shape_of(&dims, &strides)
        };
        assert_eq!(shape(&[2, 3, 4], &[12, 4, 1]), Some(Shape::Run(24)));
        assert_eq!(shape(&[1, 3, 4, 5], &[60, 1, 15, 3]), Some(Shape::Run(60)));
        assert_eq!(shape(&[1, 2, 4, 5], &[60, 1, 15, 3]), Some(Shape::Rows { row: 2, stride: 3, rows: 20 }));
        assert_eq!(shape(&[2, 2, 2], &[100, 10, 1]), None);
        assert_eq!(shape(&[], &[]), Some(Shape::Run(1)));
    }
}
