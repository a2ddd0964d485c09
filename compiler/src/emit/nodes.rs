//! Scalar nodes as `let` statements, split between what stands before the innermost loop and what runs inside it.

use super::dims::Scope;
use super::physical::{Physical, stride, with_axis};
use super::short_rows::{self, Lookup};
use super::views::{Param, Views};
use super::{scalar, types};
use crate::diag::Diagnostic;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::plan::element_bytes;
use crate::program::Shape;
use crate::program::nest::{Node, Scalar, ScalarType};
use crate::program::{BufferId, Program};
use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use quote::{format_ident, quote};
use std::collections::{BTreeMap, BTreeSet};

/// Writes the nodes of one nest.
pub struct Nodes<'a> {
    /// The program, for element types.
    pub program: &'a Program,
    /// Parameters.
    pub views: &'a Views,
    /// The nest.
    pub physical: &'a Physical,
    /// Loop variables in scope.
    pub scope: Scope,
    /// The value of the reduction, where it is in scope.
    pub reduced: Option<TokenStream>,
    /// Address and name of the row that is written, where a row is.
    pub target: Option<(Dim, Ident)>,
    /// Whether innermost loops run where all [`Block::near`] are true.
    pub near: bool,
    /// Where statements may stand before all loops: those that declare rows which are laid out for several rows at once.
    pub kept: Option<BTreeMap<Ident, TokenStream>>,
}

/// The axis of an innermost loop over contiguous elements.
#[derive(Clone, Debug)]
pub struct Inner {
    /// The axis.
    pub axis: usize,
    /// The loop variable.
    pub name: Ident,
    /// Number of iterations, where it is known at compile time.
    pub width: Option<usize>,
    /// Number of iterations as an expression, where it is not the axis' extent.
    pub count: Option<TokenStream>,
}

/// Statements before and inside an innermost loop.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Before: hoisted nodes and rows.
    pub before: TokenStream,
    /// Inside.
    pub inside: TokenStream,
    /// Rows whose length is known at run time only.
    pub spans: Vec<Ident>,
    /// Conditions on which the functions inside have vectors.
    pub near: Vec<TokenStream>,
    /// Bytes per element of the innermost loop that are laid out before.
    laid_out: usize,
}

/// How a load reads a row.
struct Row {
    name: Ident,
    /// From one element to the next.
    step: usize,
    /// A condition that holds for the whole row or for none of it.
    guard: Option<Ident>,
}

impl<'a> Nodes<'a> {
    /// A writer without loops.
    pub fn new(program: &'a Program, views: &'a Views, physical: &'a Physical) -> Self {
        let scope = Scope { limits: physical.limits(), ..Scope::default() };
        let (reduced, target, near, kept) = (None, None, false, None);
        let mut nodes = Nodes { program, views, physical, scope, reduced, target, near, kept };
        for (i, ty) in physical.types.iter().enumerate().filter(|(_, ty)| !ty.is_float()) {
            let value = as_index(*ty, nodes.value(i as Node));
            nodes.scope.scalars.insert(i as Node, value);
        }
        nodes
    }

    /// Names an axis.
    pub fn name_axis(&mut self, axis: usize, name: Ident) {
        self.scope.axes.insert(axis, name);
    }

    /// The value of a node: a literal or its variable.
    pub fn value(&self, node: Node) -> TokenStream {
        let i = node as usize;
        if let Some(Some(value)) = self.physical.literals.get(i) {
            return types::constant(*value);
        }
        match self.physical.nodes.get(i) {
            Some(Scalar::Reduced) => self.reduced.clone().unwrap_or_else(|| quote!(total)),
            Some(node) if let Some(number) = self.number(node) => quote!(#number),
            _ => {
                let name = format_ident!("v{node}");
                quote!(#name)
            }
        }
    }

    fn number(&self, node: &Scalar) -> Option<&Ident> {
        match node {
            Scalar::Load { access, .. } => self.views.number(access.buffer),
            _ => None,
        }
    }

    /// The value of a node as it is stored in elements of a type.
    pub fn stored(&self, node: Node, element: ElementType) -> TokenStream {
        unparen(types::narrow(element, self.value(node)))
    }

    /// Statements for the selected nodes, in order; loads of contiguous elements along `inner` become rows.
    ///
    /// # Errors
    /// A function that is not defined for its type, or an operand that is overwritten before it is read.
    pub fn block(&mut self, select: &dyn Fn(usize) -> bool, inner: Option<&Inner>) -> Result<Block, Diagnostic> {
        let varying = inner
            .map_or_else(|| vec![false; self.physical.nodes.len()], |inner| self.physical.depends_on(&[inner.axis]));
        let after = self.after_reduction();
        let mut block = Block::default();
        for i in 0..self.physical.nodes.len() {
            let node = &self.physical.nodes[i];
            let trivial = self.physical.literals[i].is_some() || matches!(node, Scalar::Reduced);
            if !select(i) || trivial || self.number(node).is_some() {
                continue;
            }
            // With an innermost loop, what depends on the accumulator differs from lane to lane.
            let inside = varying[i] || (inner.is_some() && after[i]);
            let row = inner.filter(|_| inside).map_or(Ok(None), |inner| self.row(i, inner, &mut block))?;
            let near = (self.near && inside && inner.is_some()).then(|| self.near(i)).flatten();
            let value = match near {
                Some((condition, value)) => {
                    block.near.push(condition);
                    value
                }
                None => unparen(self.expression(i, inner, row.as_ref())?),
            };
            let name = format_ident!("v{i}");
            let statement = quote!(let #name = #value;);
            if inside { block.inside.extend(statement) } else { block.before.extend(statement) }
        }
        Ok(block)
    }

    /// When vectors have the function of a node, and that function. Division by a constant is a product anyhow.
    pub fn near(&self, i: usize) -> Option<(TokenStream, TokenStream)> {
        let Some(Scalar::Binary(function, a, b)) = self.physical.nodes.get(i) else { return None };
        let ty = self.physical.types.get(*a as usize).copied()?;
        if !ty.is_float() && self.physical.literals.get(*b as usize)?.is_some() {
            return None;
        }
        let (a, b) = (self.value(*a), self.value(*b));
        Some((scalar::is_near(*function, ty, &a, &b)?, scalar::binary_near(*function, ty, &a, &b)?))
    }

    fn after_reduction(&self) -> Vec<bool> {
        let nodes = &self.physical.nodes;
        let mut after = vec![false; nodes.len()];
        for (i, node) in nodes.iter().enumerate() {
            let mut depends = matches!(node, Scalar::Reduced);
            node.for_each_operand(&mut |operand| depends |= after.get(operand as usize).copied().unwrap_or(false));
            after[i] = depends;
        }
        after
    }

    /// Whether the nest stores into a parameter that it reads: one that computes a number for each row does not.
    fn overwrites(&self, param: &Param) -> bool {
        param.written && self.views.number(self.physical.target).is_none()
    }

    /// Binds the row of a load, where it reads contiguous elements.
    fn row(&mut self, i: usize, inner: &Inner, block: &mut Block) -> Result<Option<Row>, Diagnostic> {
        let Scalar::Load { access, bounds, .. } = &self.physical.nodes[i] else { return Ok(None) };
        let Some(address) = access.index.first() else { return Ok(None) };
        let Some(param) = self.views.param(access.buffer) else { return Ok(None) };
        if self.overwrites(param) {
            return Ok(None);
        }
        let step = stride(address, inner.axis).and_then(|s| s.as_usize());
        let uniform =
            bounds.iter().all(|bound| !bound.value.uses_axis(inner.axis) && !bound.limit.uses_axis(inner.axis));
        let hoistable = depends_on_hoisted_only(&self.physical.nodes, i, &self.physical.depends_on(&[inner.axis]));
        if !uniform || !hoistable || access.buffer == self.physical.target {
            return Ok(None);
        }
        if let Some(name) = self.laid_out(i, param, address, inner, block) {
            return Ok(Some(Row { name, step: 1, guard: self.guard(i, bounds, block) }));
        }
        let Some(step) = step.filter(|step| *step > 0) else { return Ok(None) };
        let (name, row) = (param.name.clone(), format_ident!("{}_{i}", param.name));
        let start = self.scope.index(&with_axis(address, inner.axis, &Dim::constant(0)));
        match inner.width {
            Some(width) if !param.is_slice() => {
                // Elements at a distance lie in a longer row: every index is inside, as the optimiser sees.
                let reach = width.checked_sub(1).and_then(|last| last.checked_mul(step)?.checked_add(1));
                let Some(reach) = reach.filter(|reach| *reach <= param.run()) else { return Ok(None) };
                let reach = Literal::usize_unsuffixed(reach);
                block.before.extend(quote!(let #row = #name.row::<#reach>(#start);));
            }
            _ if step == 1 && bounds.is_empty() && inner.width.is_none_or(|width| width <= param.run()) => {
                let width = self.width(inner);
                block.before.extend(quote!(let #row = #name.span(#start, #width);));
                block.spans.push(row.clone());
            }
            _ => return Ok(None),
        }
        Ok(Some(Row { name: row, step, guard: self.guard(i, bounds, block) }))
    }

    /// Lays out what is looked up along a row.
    fn laid_out(&mut self, i: usize, param: &Param, address: &Dim, inner: &Inner, block: &mut Block) -> Option<Ident> {
        let width = inner.width?;
        let lookup = Lookup::along_row(address, inner.axis, width)?;
        let read = lookup.reach(width);
        let bytes = block.laid_out + element_bytes(param.element)?;
        if param.is_slice() || read > param.run() || bytes.saturating_mul(width) > short_rows::BYTES {
            return None;
        }
        block.laid_out = bytes;
        let (name, row) = (&param.name, format_ident!("{}_{i}", param.name));
        let (start, read) = (self.scope.index(&lookup.start), Literal::usize_unsuffixed(read));
        let elements = quote!(#name.row::<#read>(#start));
        let all = match (&mut self.kept, lookup.kept(width)) {
            (Some(kept), Some(kind)) => {
                let all = format_ident!("{row}_all");
                kept.insert(all.clone(), quote!(let mut #all = #kind::new();));
                quote!(#all.of(#elements))
            }
            _ => lookup.laid_out(width, &elements),
        };
        block.before.extend(quote!(let #row = #all;));
        Some(row)
    }

    /// The statements before all loops.
    pub fn before_loops(&self) -> TokenStream {
        self.kept.iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// The condition on which a whole row is read, as a variable.
    fn guard(&self, i: usize, bounds: &[crate::program::Bound], block: &mut Block) -> Option<Ident> {
        let (condition, guard) = (self.condition(bounds)?, format_ident!("inside_{i}"));
        block.before.extend(quote!(let #guard = #condition;));
        Some(guard)
    }

    /// Number of iterations of an innermost loop.
    pub fn width(&self, inner: &Inner) -> TokenStream {
        if let Some(count) = &inner.count {
            return count.clone();
        }
        match inner.width {
            Some(width) => {
                let width = Literal::usize_unsuffixed(width);
                quote!(#width)
            }
            None => self.physical.extents.get(inner.axis).map_or_else(|| quote!(0), |extent| self.scope.index(extent)),
        }
    }

    /// Whether all bounds hold.
    pub fn condition(&self, bounds: &[crate::program::Bound]) -> Option<TokenStream> {
        let mut all: Option<TokenStream> = None;
        for bound in bounds {
            let (value, limit) = (self.scope.factor(&bound.value), self.scope.factor(&bound.limit));
            let one = quote!(#value < #limit);
            all = Some(match all {
                // No short circuit: these are cheap, and branches keep loops from becoming vectors.
                Some(all) => quote!(#all & (#one)),
                None => quote!((#one)),
            });
        }
        all.map(|all| if bounds.len() == 1 { unparen(all) } else { all })
    }

    fn expression(&self, i: usize, inner: Option<&Inner>, row: Option<&Row>) -> Result<TokenStream, Diagnostic> {
        let misfit = || Diagnostic::internal(format!("node %{i} is not defined for its type"));
        let of = |node: &Node| self.physical.types.get(*node as usize).copied().unwrap_or(ScalarType::F32);
        Ok(match &self.physical.nodes[i] {
            Scalar::Const(value) => types::constant(*value),
            Scalar::Reduced => self.value(i as u32),
            Scalar::Index(dim) => {
                let signed = self.scope.signed(dim);
                quote!(#signed)
            }
            Scalar::Unary(function, a) => scalar::unary(*function, of(a), &self.value(*a)).ok_or_else(misfit)?,
            Scalar::Binary(function, a, b) => {
                scalar::binary(*function, of(a), &self.value(*a), &self.value(*b)).ok_or_else(misfit)?
            }
            Scalar::Select(c, a, b) => {
                let is_loaded = |node: &Node| matches!(self.physical.nodes[*node as usize], Scalar::Load { .. });
                let loaded = is_loaded(a) && is_loaded(b);
                let (c, a, b) = (unparen(self.value(*c)), self.value(*a), self.value(*b));
                if loaded { quote!(rt::math::select(#c, #a, #b)) } else { quote!(if #c { #a } else { #b }) }
            }
            Scalar::Cast(element, a) => types::convert(of(a), *element, self.value(*a)),
            Scalar::Load { access, bounds, otherwise } => {
                let element = self.program.buffer(access.buffer).element;
                let address = access.index.first().ok_or_else(misfit)?;
                let (stored, guard) = match (row, inner) {
                    (Some(row), Some(inner)) => {
                        let (name, at) = (&row.name, &inner.name);
                        let step = Literal::usize_unsuffixed(row.step);
                        let at = if row.step == 1 { quote!(#at) } else { quote!(#at * #step) };
                        (quote!(#name.at(#at)), row.guard.as_ref().map(|guard| quote!(#guard)))
                    }
                    _ => (self.element(access.buffer, address, inner)?, self.condition(bounds)),
                };
                let value = unparen(types::widen(element, stored));
                match (guard, otherwise) {
                    (Some(guard), Some(otherwise)) => {
                        let otherwise = self.value(*otherwise);
                        quote!(if #guard { #value } else { #otherwise })
                    }
                    _ => value,
                }
            }
        })
    }

    /// One element; of a buffer that is overwritten in place, the element that the same iteration stores.
    fn element(&self, buffer: BufferId, address: &Dim, inner: Option<&Inner>) -> Result<TokenStream, Diagnostic> {
        let name = self.views.name(buffer);
        let written = self.views.param(buffer).is_some_and(|param| self.overwrites(param));
        if written && *address != self.physical.store {
            return Err(Diagnostic::internal("an operand is overwritten before it is read"));
        }
        if let (true, Some((_, row)), Some(inner)) = (written, &self.target, inner) {
            let at = &inner.name;
            return Ok(quote!(#row.at(#at)));
        }
        let index = self.scope.index(address);
        Ok(quote!(#name.at(#index)))
    }

    /// The row of the store along `inner`, if it is contiguous; what follows reads an in-place operand from it.
    pub fn bind_target(&mut self, inner: &Inner) -> Option<Block> {
        let param = self.views.param(self.physical.target)?;
        let unit = stride(&self.physical.store, inner.axis).is_some_and(|s| s.is(1));
        let hoistable = is_hoisted(&self.physical.store, &self.physical.depends_on(&[inner.axis]));
        let fits = match (inner.width, param.shape) {
            (Some(width), _) => width <= param.run(),
            (None, Shape::Run(_)) => true,
            _ => false,
        };
        if !unit || !hoistable || !fits {
            return None;
        }
        let (name, row) = (&param.name, format_ident!("{}_row", param.name));
        let start = self.scope.index(&with_axis(&self.physical.store, inner.axis, &Dim::constant(0)));
        let width = self.width(inner);
        self.target = Some((self.physical.store.clone(), row.clone()));
        let mut block = Block::default();
        match inner.width {
            Some(_) => block.before = quote!(let #row = #name.row_mut::<#width>(#start);),
            None => {
                block.before = quote!(let #row = #name.span_mut(#start, #width););
                block.spans.push(row);
            }
        }
        Some(block)
    }

    /// The row in which the elements of the store lie at a distance of `step`, unless the nest reads what is stored before.
    pub fn bind_spread(&self, inner: &Inner, step: usize) -> Option<(TokenStream, Ident)> {
        let (physical, param) = (self.physical, self.views.param(self.physical.target)?);
        let reach =
            inner.width?.checked_sub(1)?.checked_mul(step)?.checked_add(1).filter(|reach| *reach <= param.run())?;
        let overwritten = |node: &Scalar| match node {
            Scalar::Load { access, .. } => self.views.param(access.buffer).is_some_and(|param| self.overwrites(param)),
            _ => false,
        };
        let mut needed = physical.nodes.iter().zip(physical.stored()).filter(|(_, needed)| *needed);
        let hoistable = is_hoisted(&physical.store, &physical.depends_on(&[inner.axis]));
        if needed.any(|(node, _)| overwritten(node)) || !hoistable {
            return None;
        }
        let (name, row) = (&param.name, format_ident!("{}_row", param.name));
        stride(&physical.store, inner.axis).filter(|own| own.as_usize() == Some(step))?;
        let start = self.scope.index(&with_axis(&physical.store, inner.axis, &Dim::constant(0)));
        let reach = Literal::usize_unsuffixed(reach);
        Some((quote!(let #row = #name.row_mut::<#reach>(#start);), row))
    }

    /// An innermost loop; rows of run-time length are cut to one length first, so that no access falls outside.
    pub fn inner_loop(&self, inner: &Inner, spans: &[Ident], body: &TokenStream) -> TokenStream {
        self.inner_loop_beside(inner, spans, None, body)
    }

    /// The same with the elements of something iterable beside the loop variable: pattern and iterable.
    pub fn inner_loop_beside(
        &self,
        inner: &Inner,
        spans: &[Ident],
        beside: Option<(TokenStream, TokenStream)>,
        body: &TokenStream,
    ) -> TokenStream {
        let name = &inner.name;
        let looping = |width: TokenStream| match &beside {
            None => quote!(for #name in 0..#width { #body }),
            Some((pattern, elements)) => quote!(for (#name, #pattern) in (0..#width).zip(#elements) { #body }),
        };
        let target = self.target.as_ref().map(|(_, row)| row);
        let Some(first) = spans.first() else {
            // The type must be known before a method is called on the variable.
            let width = match (&inner.count, inner.width) {
                (None, Some(width)) => {
                    let width = Literal::usize_suffixed(width);
                    quote!(#width)
                }
                _ => self.width(inner),
            };
            return looping(width);
        };
        let mut lengths = quote!(#first.len());
        for span in spans.iter().skip(1) {
            lengths = quote!(#lengths.min(#span.len()));
        }
        if let (Some(width), Some(_)) = (inner.width, target) {
            let width = Literal::usize_unsuffixed(width);
            lengths = quote!(#lengths.min(#width));
        }
        let mut cut: BTreeMap<String, TokenStream> = BTreeMap::new();
        let written: BTreeSet<String> = target.iter().map(ToString::to_string).collect();
        for span in spans.iter().chain(target) {
            let statement = match written.contains(&span.to_string()) {
                true => quote!(let #span = #span.span_mut(0, n);),
                false => quote!(let #span = #span.span(0, n);),
            };
            cut.insert(span.to_string(), statement);
        }
        let cut = cut.values();
        let looping = looping(quote!(n));
        quote!(let n = #lengths; #(#cut)* #looping)
    }
}

/// Whether everything that the address and bounds of a load use is computed before the loop.
fn depends_on_hoisted_only(nodes: &[Scalar], i: usize, varying: &[bool]) -> bool {
    let Some(Scalar::Load { access, bounds, .. }) = nodes.get(i) else { return false };
    let bounds = bounds.iter().flat_map(|bound| [&bound.value, &bound.limit]);
    access.index.iter().chain(bounds).all(|dim| is_hoisted(dim, varying))
}

/// Whether all scalars that an expression uses are computed before the loop in which the marked nodes vary.
pub fn is_hoisted(dim: &Dim, varying: &[bool]) -> bool {
    let mut hoisted = true;
    dim.for_each_atom(&mut |atom| {
        if let crate::dim::Atom::Scalar(node) = atom {
            hoisted &= !varying.get(*node as usize).copied().unwrap_or(true);
        }
    });
    hoisted
}

fn as_index(ty: ScalarType, name: TokenStream) -> TokenStream {
    match ty {
        ScalarType::I64 => name,
        ScalarType::U64 => quote!(i64::try_from(#name).unwrap_or(i64::MAX)),
        ScalarType::I32 | ScalarType::Bool => quote!(i64::from(#name)),
        ScalarType::F32 | ScalarType::F64 => quote!(0i64),
    }
}

/// Without the parentheses around the whole expression.
pub fn unparen(tokens: TokenStream) -> TokenStream {
    let mut trees = tokens.clone().into_iter();
    match (trees.next(), trees.next()) {
        (Some(TokenTree::Group(group)), None) if group.delimiter() == proc_macro2::Delimiter::Parenthesis => {
            group.stream()
        }
        _ => tokens,
    }
}
