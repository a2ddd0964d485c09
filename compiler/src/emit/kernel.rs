//! Kernel calls: the descriptor as a constant with a proof that it fits, operands, epilogue.

use super::views::{Param, Views};
use super::{dims::Scope, epilogue};
use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::program::Shape;
use crate::program::kernel::{
    Compact, Description, Divisor, KernelAxis, KernelKind, Method, Strides, WindowBound, WindowOp, Winograd,
};
use crate::program::{BufferId, Kernel, Program};
use include_ir_runtime::__private::v1::Form;
use proc_macro2::{Literal, TokenStream};
use quote::quote;

/// What a kernel touches besides the loads of its nest.
#[derive(Clone, Debug, Default)]
pub struct Roles {
    /// A load that packed weights stand for.
    pub replaced: Option<u32>,
    /// Packed weights among the constants.
    pub reads: Vec<BufferId>,
    /// Packed weights that the step fills itself, and other working memory.
    pub scratch: Vec<BufferId>,
}

impl Roles {
    /// The roles of a kernel's buffers.
    pub fn new(program: &Program, kernel: &Kernel) -> Self {
        let (weights, packed) = operands(kernel);
        let scratch = kernel.scratch();
        match packed {
            Some(packed) if program.buffer(packed).constant().is_some() => {
                Roles { replaced: weights, reads: vec![packed], scratch: scratch.into_iter().collect() }
            }
            packed => Roles { replaced: None, reads: Vec::new(), scratch: packed.into_iter().chain(scratch).collect() },
        }
    }
}

pub(super) fn operands(kernel: &Kernel) -> (Option<u32>, Option<BufferId>) {
    match &kernel.kind {
        KernelKind::Contraction { weights, packed, .. } => (Some(*weights), Some(*packed)),
        KernelKind::Window { weights, packed, .. } => (*weights, *packed),
    }
}

/// A kernel that is being written.
pub(super) struct Call<'a> {
    pub program: &'a Program,
    pub views: &'a Views,
    pub kernel: &'a Kernel,
    pub description: Description,
    /// Its place in a chain.
    pub stage: Option<usize>,
    scope: Scope,
}

/// A kernel call, apart from the descriptor.
pub(super) struct Written {
    /// Type and value of the descriptor.
    pub ty: TokenStream,
    /// See above.
    pub value: TokenStream,
    /// The condition under which it fits its operands.
    pub proof: TokenStream,
    /// Everything behind the descriptor.
    pub body: TokenStream,
}

/// The body of a function that runs a kernel.
///
/// # Errors
/// A kernel whose description does not fit the runtime's.
pub fn body(program: &Program, views: &Views, kernel: &Kernel) -> Result<TokenStream, Diagnostic> {
    let call = Call::new(program, views, kernel, None)?;
    let Written { ty, value, proof, body } = call.written()?;
    let bind = call.descriptor(&ty, &value, &proof);
    Ok(quote!(#bind #body))
}

pub(super) fn misfit(why: &str) -> Diagnostic {
    Diagnostic::internal(format!("a kernel does not fit its nest: {why}"))
}

/// The elements of a parameter.
pub(super) fn extent(param: &Param) -> TokenStream {
    match param.shape {
        Shape::Run(len) => {
            let len = Literal::usize_unsuffixed(len);
            quote!(rt::Extent::contiguous(#len))
        }
        Shape::Rows { row, stride, rows } => {
            let [row, stride, rows] = [row, stride, rows].map(Literal::usize_unsuffixed);
            quote!(rt::Extent { row: #row, stride: #stride, rows: #rows })
        }
    }
}

impl<'a> Call<'a> {
    /// A kernel on its own, or a stage of a chain.
    ///
    /// # Errors
    /// A kernel that has no description.
    pub fn new(
        program: &'a Program,
        views: &'a Views,
        kernel: &'a Kernel,
        stage: Option<usize>,
    ) -> Result<Self, Diagnostic> {
        let mut description = kernel.describe(program).ok_or_else(|| misfit("it has no description"))?;
        let load = |node: Option<u32>| node.and_then(|node| kernel.buffer_of(node));
        let rebase = |buffer: Option<BufferId>, offset: &mut Dim| {
            if let Some(buffer) = buffer {
                *offset = views.rebase(program, buffer, offset);
            }
        };
        rebase(load(Some(kernel.data)), &mut description.data_offset);
        rebase(load(operands(kernel).0), &mut description.weights_offset);
        rebase(load(kernel.epilogue.residual), &mut description.residual_offset);
        rebase(load(kernel.epilogue.bias), &mut description.bias_offset);
        rebase(Some(kernel.nest.store.buffer), &mut description.out_offset);
        Ok(Call { program, views, kernel, description, stage, scope: Scope::default() })
    }

    /// The parts of the call.
    ///
    /// # Errors
    /// A kernel whose description does not fit the runtime's.
    pub fn written(&self) -> Result<Written, Diagnostic> {
        self.written_for(&extent(self.data()?), &extent(self.out()?))
    }

    /// The same with a proof for data and a result of these extents.
    ///
    /// # Errors
    /// A kernel whose description does not fit the runtime's.
    pub fn written_for(&self, data: &TokenStream, out: &TokenStream) -> Result<Written, Diagnostic> {
        match &self.kernel.kind {
            KernelKind::Contraction { packed, panel, method, .. } => {
                self.contraction(*packed, *panel, *method, (data, out))
            }
            KernelKind::Window { op, packed, .. } => self.window(*op, *packed, (data, out)),
        }
    }

    pub fn size(&self, dim: &Dim) -> TokenStream {
        self.scope.index(dim)
    }

    /// A stride or offset that may be negative.
    fn step(&self, dim: &Dim) -> TokenStream {
        match dim.as_const() {
            Some(value) => {
                let literal = Literal::u64_unsuffixed(value.unsigned_abs());
                if value < 0 { quote!(-#literal) } else { quote!(#literal) }
            }
            None => {
                let value = self.scope.signed(dim);
                quote!((#value as isize))
            }
        }
    }

    fn batch(&self, axis: &KernelAxis, weights: &Dim) -> TokenStream {
        let (extent, a, w) = (self.size(&axis.extent), self.step(&axis.strides.data), self.size(weights));
        let [out, residual, bias] =
            [&axis.strides.out, &axis.strides.residual, &axis.strides.bias].map(|stride| self.size(stride));
        quote!(rt::Batch { extent: #extent, a: #a, w: #w, out: #out, residual: #residual, bias: #bias })
    }

    /// Exactly two batch axes; `weights` is the length of the packed weights of one batch.
    fn batches(&self, axes: &[KernelAxis], weights: &Dim) -> Result<TokenStream, Diagnostic> {
        if axes.len() > 2 {
            return Err(misfit("too many batch axes"));
        }
        let mut step = weights.clone();
        let mut found: Vec<TokenStream> = Vec::new();
        for axis in axes.iter().rev() {
            let shared = axis.strides.weights.is(0);
            let weights = if shared { Dim::constant(0) } else { step.clone() };
            found.insert(0, self.batch(axis, &weights));
            if !shared {
                step = step * &axis.extent;
            }
        }
        while found.len() < 2 {
            found.insert(0, quote!(rt::Batch::ONE));
        }
        Ok(quote!([#(#found),*]))
    }

    fn rows(&self) -> Result<TokenStream, Diagnostic> {
        let rows = &self.description.rows;
        if rows.len() > 4 {
            return Err(misfit("too many row axes"));
        }
        let mut found: Vec<TokenStream> = Vec::new();
        for axis in rows {
            let (extent, a) = (self.size(&axis.extent), self.step(&axis.strides.data));
            let (out, residual) = (self.size(&axis.strides.out), self.size(&axis.strides.residual));
            found.push(quote!(rt::RowAxis { extent: #extent, a: #a, out: #out, residual: #residual }));
        }
        // Missing axes go to the fast end: bounds name axes by position.
        found.resize(4, quote!(rt::RowAxis::ONE));
        Ok(quote!([#(#found),*]))
    }

    fn taps(&self) -> Result<TokenStream, Diagnostic> {
        let taps = &self.description.taps;
        if taps.len() > 4 {
            return Err(misfit("too many tap axes"));
        }
        let mut found: Vec<TokenStream> = Vec::new();
        for axis in taps {
            let (extent, a) = (self.size(&axis.extent), self.step(&axis.strides.data));
            found.push(quote!(rt::Tap { extent: #extent, a: #a }));
        }
        // Missing axes go to the slow end: the kernel joins neighbours along the last axis.
        found.splice(0..0, vec![quote!(rt::Tap::ONE); 4 - taps.len()]);
        Ok(quote!([#(#found),*]))
    }

    fn bounds(&self) -> Result<TokenStream, Diagnostic> {
        let bounds = &self.description.bounds;
        if bounds.len() > 3 {
            return Err(misfit("too many bounds"));
        }
        let missing = 4usize.saturating_sub(self.description.taps.len());
        let one = |bound: &WindowBound| {
            let axis = |position: Option<usize>| match position {
                Some(position) => {
                    let position = Literal::usize_unsuffixed(position);
                    quote!(#position)
                }
                None => quote!(rt::Bound::NO_AXIS),
            };
            let (row, tap) = (axis(bound.row), axis(bound.tap.map(|tap| tap + missing)));
            let (stride, dilation) = (Literal::i64_unsuffixed(bound.stride), Literal::i64_unsuffixed(bound.dilation));
            let (offset, limit) = (self.step(&bound.offset), self.size(&bound.limit));
            quote!(rt::Bound { row: #row, tap: #tap, stride: #stride, dilation: #dilation, offset: #offset, limit: #limit })
        };
        let mut found: Vec<TokenStream> = bounds.iter().map(one).collect();
        found.resize(3, quote!(rt::Bound::NONE));
        Ok(quote!([#(#found),*]))
    }

    /// Whether nothing of the descriptor depends on run-time sizes.
    pub fn is_static(&self) -> bool {
        let d = &self.description;
        let known = |axis: &KernelAxis| {
            let Strides { data, out, residual, bias, .. } = &axis.strides;
            [&axis.extent, data, out, residual, bias].into_iter().all(|size| size.as_const().is_some())
        };
        d.batches.iter().chain(&d.rows).chain(&d.taps).chain(&d.depth).chain(&d.columns).all(known)
            && [&d.data_offset, &d.out_offset, &d.residual_offset].iter().all(|offset| offset.as_const().is_some())
    }

    pub fn param(&self, buffer: Option<BufferId>) -> Result<&Param, Diagnostic> {
        buffer.and_then(|buffer| self.views.param(buffer)).ok_or_else(|| misfit("an operand is missing"))
    }

    pub fn data(&self) -> Result<&Param, Diagnostic> {
        self.param(self.kernel.buffer_of(self.kernel.data))
    }

    pub fn out(&self) -> Result<&Param, Diagnostic> {
        self.param(Some(self.kernel.nest.store.buffer))
    }

    fn contraction(
        &self,
        packed: BufferId,
        panel: usize,
        method: Method,
        (data_extent, out_extent): (&TokenStream, &TokenStream),
    ) -> Result<Written, Diagnostic> {
        let d = &self.description;
        let depth = d.depth.as_ref().map_or(Dim::constant(1), |axis| axis.extent.clone());
        let cols = product(&extents(&d.columns));
        let k = product(&extents(&d.taps)) * &depth;
        let unit = Dim::constant(panel.min(16) as i64);
        let weights = self.param(Some(packed))?;
        let one = match method {
            Method::Winograd(_) => Dim::from(weights.run()).floor_div(&d.own_count()),
            _ => cols.ceil_div(&unit) * &unit * &k,
        };
        let value = self.product(&one, &depth, &cols, panel)?;
        let weights_len = Literal::usize_unsuffixed(weights.run());
        let shape = self.shape_name();
        let packing = if weights.written { self.packing(weights, panel, &one)? } else { TokenStream::new() };
        let (epilogue_setup, epilogue) = epilogue::tokens(self)?;
        let (x, w, y) = (&self.data()?.name, &weights.name, &self.out()?.name);
        let proof = quote!(rt::Contraction::fits(&#shape, #data_extent, #weights_len, #out_extent));
        let Some(scratch) = method.scratch() else {
            let body = quote!(#packing #epilogue_setup #shape.run(cx, #x.src(), &*#w, #y.dst(), #epilogue););
            return Ok(Written { ty: quote!(rt::Contraction), value, proof, body });
        };
        let scratch = self.param(Some(scratch))?;
        let (name, len) = (&scratch.name, Literal::usize_unsuffixed(scratch.run()));
        let operands = quote!(cx, #x.src(), &*#w, &mut *#name, #y.dst(), #epilogue);
        if let Method::Winograd(winograd) = method {
            let proof = quote!(rt::Winograd::fits(&#shape, #data_extent, #weights_len, #len, #out_extent));
            let body = quote!(#epilogue_setup #shape.run(#operands););
            return Ok(Written { ty: quote!(rt::Winograd), value: filtered(&value, &winograd), proof, body });
        }
        if let Method::Compact(compact) = method {
            let proof = quote!(rt::Compact::fits(&#shape, #data_extent, #weights_len, #len, #out_extent));
            let body = quote!(#epilogue_setup #shape.run(#operands););
            return Ok(Written { ty: quote!(rt::Compact), value: compacted(&value, &compact), proof, body });
        }
        let run = if matches!(method, Method::Strassen { .. }) { quote!(run_strassen) } else { quote!(run_packed) };
        let body = quote!(#packing #epilogue_setup #shape.#run(#operands););
        Ok(Written { ty: quote!(rt::Contraction), value, proof, body })
    }

    /// The descriptor of a contraction; `one` is the length of the packed weights of one batch.
    pub fn product(&self, one: &Dim, depth: &Dim, cols: &Dim, panel: usize) -> Result<TokenStream, Diagnostic> {
        let d = &self.description;
        let (batches, rows, taps, bounds) =
            (self.batches(&d.batches, one)?, self.rows()?, self.taps()?, self.bounds()?);
        let (a, out, residual) = (self.step(&d.data_offset), self.size(&d.out_offset), self.size(&d.residual_offset));
        let (depth, cols, panel) = (self.size(depth), self.size(cols), Literal::usize_unsuffixed(panel));
        Ok(quote!(rt::Contraction {
            batches: #batches, rows: #rows, taps: #taps, bounds: #bounds, a_offset: #a, out_offset: #out,
            residual_offset: #residual, depth: #depth, cols: #cols, panel: #panel
        }))
    }

    fn shape_name(&self) -> TokenStream {
        if self.is_static() && self.stage.is_none() { quote!(SHAPE) } else { quote!(shape) }
    }

    /// The descriptor: a proved constant, or a value of run-time sizes that the kernel checks itself.
    fn descriptor(&self, ty: &TokenStream, value: &TokenStream, proof: &TokenStream) -> TokenStream {
        if self.is_static() && !self.data().is_ok_and(Param::is_slice) {
            quote!(const SHAPE: #ty = #value; const { assert!(#proof) };)
        } else if self.is_static() {
            quote!(const SHAPE: #ty = #value;)
        } else {
            quote!(let shape = #value;)
        }
    }

    /// Packs weights that are computed at run time.
    fn packing(&self, packed: &Param, panel: usize, one: &Dim) -> Result<TokenStream, Diagnostic> {
        let d = &self.description;
        let source = self.param(operands(self.kernel).0.and_then(|node| self.kernel.buffer_of(node)))?;
        let k_axes: Vec<&KernelAxis> = d.taps.iter().chain(&d.depth).collect();
        let n_axes: Vec<&KernelAxis> = d.columns.iter().collect();
        let shape = self.shape_name();
        let moving: Vec<&KernelAxis> = d.own_batches().collect();
        let (source, target) = (&source.name, &packed.name);
        let one = self.size(one);
        let mut offset = self.size(&d.weights_offset);
        let mut loops: Vec<(proc_macro2::Ident, TokenStream)> = Vec::new();
        for (i, axis) in moving.iter().enumerate() {
            let (name, stride) = (quote::format_ident!("b{i}"), self.scope.factor(&axis.strides.weights));
            offset.extend(quote!(+ #name * #stride));
            loops.push((name, self.size(&axis.extent)));
        }
        let panel = Literal::usize_unsuffixed(panel);
        let pack = match (flat_stride(&k_axes), flat_stride(&n_axes)) {
            (Some(k), Some(n)) => {
                let (k, n) = (self.size(&k), self.size(&n));
                quote!(rt::pack_strided(cx, #shape.cols, #shape.k(), #panel, #source.src(), #offset, (#k, #n), part);)
            }
            _ => {
                let (k, n) = (self.flat_address(&k_axes, "k"), self.flat_address(&n_axes, "n"));
                quote!(rt::pack(#shape.cols, #shape.k(), #panel, part, |k, n| #source.at(#offset + #k + #n));)
            }
        };
        let mut body = quote! {
            let Some((part, rest)) = core::mem::take(&mut packed).split_at_mut_checked(#one) else { return };
            #pack
            packed = rest;
        };
        for (name, extent) in loops.into_iter().rev() {
            body = quote!(for #name in 0..#extent { #body });
        }
        Ok(quote!({ let mut packed: &mut [f32] = &mut *#target; #body }))
    }

    /// Distance in the weights of point number `flat` of some axes.
    fn flat_address(&self, axes: &[&KernelAxis], flat: &str) -> TokenStream {
        let flat = quote::format_ident!("{flat}");
        let mut sum = quote!(0);
        for (i, axis) in axes.iter().enumerate() {
            let below = product(&axes[i + 1..].iter().map(|axis| axis.extent.clone()).collect::<Vec<_>>());
            let [below, extent, stride] =
                [&below, &axis.extent, &axis.strides.weights].map(|size| self.scope.factor(size));
            sum.extend(quote!(+ #flat / #below % #extent * #stride));
        }
        sum
    }

    fn window(
        &self,
        op: WindowOp,
        packed: Option<BufferId>,
        (data_extent, out_extent): (&TokenStream, &TokenStream),
    ) -> Result<Written, Diagnostic> {
        let d = &self.description;
        let channels = product(&extents(&d.columns));
        let one = product(&extents(&d.taps)) * &channels;
        let (batches, rows, taps, bounds) =
            (self.batches(&d.batches, &one)?, self.rows()?, self.taps()?, self.bounds()?);
        let (a, out, residual) = (self.step(&d.data_offset), self.size(&d.out_offset), self.size(&d.residual_offset));
        let channels = self.size(&channels);
        let value = quote!(rt::Window {
            batches: #batches, rows: #rows, taps: #taps, bounds: #bounds, a_offset: #a, out_offset: #out,
            residual_offset: #residual, channels: #channels
        });
        let shape = self.shape_name();
        let proof = quote!(rt::Window::fits(&#shape, #data_extent, #out_extent));
        let (epilogue_setup, epilogue) = epilogue::tokens(self)?;
        let (x, y) = (&self.data()?.name, &self.out()?.name);
        let call = match (op, packed) {
            (WindowOp::Depthwise, packed) => {
                let weights = &self.param(packed)?.name;
                quote!(#shape.depthwise(cx, #x.src(), &*#weights, #y.dst(), #epilogue))
            }
            (WindowOp::Max, _) => quote!(#shape.max(cx, #x.src(), #y.dst(), #epilogue)),
            (WindowOp::Sum, _) => quote!(#shape.average(cx, #x.src(), #y.dst(), rt::Divisor::Fixed(1.0), #epilogue)),
            (WindowOp::Mean(divisor), _) => {
                let divisor = match divisor {
                    Divisor::InBounds => quote!(rt::Divisor::InBounds),
                    Divisor::Fixed(count) => {
                        let count = Literal::f32_unsuffixed(count as f32);
                        quote!(rt::Divisor::Fixed(#count))
                    }
                };
                quote!(#shape.average(cx, #x.src(), #y.dst(), #divisor, #epilogue))
            }
        };
        Ok(Written { ty: quote!(rt::Window), value, proof, body: quote!(#epilogue_setup #call;) })
    }
}

/// The descriptor of minimal filtering around that of the convolution.
fn filtered(product: &TokenStream, winograd: &Winograd) -> TokenStream {
    let [y, x] = winograd.axes.map(Literal::usize_unsuffixed);
    let [tile, block, chunk] = [winograd.tile, winograd.block, winograd.chunk].map(Literal::usize_unsuffixed);
    let slices = match winograd.slices.map(|(axis, block)| [axis, block].map(Literal::usize_unsuffixed)) {
        Some([axis, block]) => quote!(Some(rt::Slices { axis: #axis, block: #block })),
        None => quote!(None),
    };
    quote!(rt::Winograd {
        product: #product, axes: [#y, #x], slices: #slices, tile: #tile, block: #block, chunk: #chunk
    })
}

/// The descriptor of a product with compact weights.
fn compacted(product: &TokenStream, compact: &Compact) -> TokenStream {
    let group = Literal::usize_unsuffixed(compact.group);
    let form = match compact.form {
        Form::Halves => quote!(Halves),
        Form::Bytes => quote!(Bytes),
        Form::Nibbles => quote!(Nibbles),
    };
    quote!(rt::Compact { product: #product, form: rt::Form::#form, group: #group })
}

/// Extents of axes.
pub(super) fn extents(axes: &[KernelAxis]) -> Vec<Dim> {
    axes.iter().map(|axis| axis.extent.clone()).collect()
}

/// The stride of axes in the weights as if they were one; `None` where they are not.
pub(super) fn flat_stride(axes: &[&KernelAxis]) -> Option<Dim> {
    let mut moving = axes.iter().filter(|axis| !axis.extent.is(1));
    let Some(mut outer) = moving.next() else { return Some(Dim::constant(1)) };
    for inner in moving {
        if outer.strides.weights != inner.strides.weights.clone() * &inner.extent {
            return None;
        }
        outer = inner;
    }
    Some(outer.strides.weights.clone())
}
