//! Steps as functions, shared where bodies and types are the same, and blocks as functions that call them in groups.

use super::comments::Comments;
use super::interface::Interface;
use super::names::{self, Names, comment};
use super::views::{Param, Views};
use super::{EmitOptions, attention, call, chain, cost, dims, kernel, nest, rows, transpose, types};
use crate::diag::{Diagnostic, codes, quote as quoted};
use crate::output::StepInfo;
use crate::plan::{Plan, Space};
use crate::program::Shape;
use crate::program::nest::Scalar;
use crate::program::{Attention, Block, BufferId, Chain, Kernel, Program, Rows, Step, StepKind};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};
use std::collections::BTreeMap;

/// Steps that one `#[inline(never)]` function calls: fewer, larger functions make rustc slow, more make calls dear.
const GROUP: usize = 16;

/// Regions of one memory that the runtime lends at once.
pub(super) const REGIONS: usize = 48;

/// Writes the steps of a program.
pub struct Steps<'a> {
    pub(super) program: &'a Program,
    plan: &'a Plan,
    options: &'a EmitOptions,
    interface: &'a Interface,
    names: Names,
    /// Functions by signature and body.
    known: BTreeMap<String, Ident>,
    /// All functions, in the order of first use.
    pub functions: Vec<TokenStream>,
    /// Comments in them.
    pub comments: Comments,
    /// What was emitted so far; the position of a step is its number.
    pub listed: Vec<StepInfo>,
    /// Layers that cannot be emitted yet.
    pub unsupported: Vec<(Diagnostic, String)>,
}

impl<'a> Steps<'a> {
    /// A writer.
    pub fn new(program: &'a Program, plan: &'a Plan, options: &'a EmitOptions, interface: &'a Interface) -> Self {
        let names = Names::reserving(&["run", "reset", "main", "cx", "arena", "state", "inputs", "weights", "dims"]);
        let comments = Comments::new(options.source.as_ref());
        Steps {
            program,
            plan,
            options,
            interface,
            names,
            known: BTreeMap::new(),
            functions: Vec::new(),
            comments,
            listed: Vec::new(),
            unsupported: Vec::new(),
        }
    }

    /// The parameters that every group function takes, and the arguments that pass them on.
    pub fn shared(&self) -> (TokenStream, TokenStream) {
        let (mut parameters, mut arguments) = (quote!(cx: rt::Cx<'_>), quote!(cx));
        let mut add = |wanted: bool, name: &str, ty: TokenStream, argument: TokenStream| {
            if wanted {
                let name = format_ident!("{name}");
                parameters.extend(quote!(, #name: #ty));
                arguments.extend(quote!(, #argument));
            }
        };
        let dims = dims::ty(self.program, dims::found(self.program));
        add(self.plan.arena_bytes > 0, "arena", quote!(&mut rt::Arena<ARENA_BYTES>), quote!(arena));
        add(self.plan.state_bytes > 0, "state", quote!(&mut rt::Arena<STATE_BYTES>), quote!(state));
        add(!self.interface.inputs.is_empty(), "inputs", quote!(&Inputs<'_>), quote!(inputs));
        add(self.plan.weight_bytes > 0, "weights", quote!(&Weights), quote!(weights));
        add(!self.program.variables.is_empty(), "dims", dims, quote!(dims));
        (parameters, arguments)
    }

    /// Statements that run a block.
    ///
    /// # Errors
    /// Internal errors; layers that are not supported are collected instead.
    pub fn block(&mut self, block: &Block, name: &str) -> Result<TokenStream, Diagnostic> {
        let mut statements = Vec::new();
        for step in &block.steps {
            match self.step(step) {
                Ok(statement) => statements.push(statement),
                Err(diagnostic) => {
                    let origin = step.origins.first();
                    let layer =
                        origin.map_or_else(String::new, |o| format!("{} {}", comment(&o.kind), quoted(&o.name)));
                    let diagnostic = match origin.and_then(|o| o.span) {
                        Some(span) => diagnostic.or_at(span),
                        None => diagnostic,
                    };
                    self.unsupported.push((diagnostic, layer));
                }
            }
        }
        statements.retain(|statement| !statement.is_empty());
        let (parameters, arguments) = self.shared();
        let mut calls = TokenStream::new();
        for (i, group) in statements.chunks(GROUP).enumerate() {
            let function = self.names.name(&format!("{name}_{i}"), "steps");
            self.functions.push(quote! {
                #[inline(never)]
                fn #function(#parameters) { #(#group)* }
            });
            calls.extend(quote!(#function(#arguments);));
        }
        Ok(calls)
    }

    fn step(&mut self, step: &Step) -> Result<TokenStream, Diagnostic> {
        let (views, body) = match &step.kind {
            StepKind::Nest(nest) => self.nest(nest)?,
            StepKind::Kernel(kernel) if self.options.reference => self.nest(&kernel.nest)?,
            StepKind::Kernel(kernel) => self.kernel(kernel)?,
            StepKind::Chain(chain) => self.chain(chain)?,
            StepKind::Attention(attention) => self.attention(attention)?,
            StepKind::Rows(rows) => self.rows(rows)?,
            StepKind::Reshape { from, to } => match self.reshape(*from, *to)? {
                Some(found) => found,
                None => return Ok(TokenStream::new()),
            },
            StepKind::Call(call) => {
                let views = Views::new(self.program, self.plan, &call.inputs, &call.outputs)?;
                let body = call::body(self.program, &views, call)?;
                let (name, text) = (step_name(step), self.comments.describe(self.program, step));
                let statement = self.call(&views, &body, name, &text, !call.sizes.is_empty())?;
                return self.list(step, text, statement);
            }
            StepKind::If { condition, then, otherwise } => return self.branch(*condition, then, otherwise),
            StepKind::Loop(inner) => return self.repeat(inner),
            StepKind::Size { variable, value } => return Ok(self.sizes(&[(*variable, value.clone())])),
        };
        if views.params.iter().any(|param| param.written && param.run() == 0) {
            return Ok(TokenStream::new());
        }
        let text = self.comments.describe(self.program, step);
        let statement = self.call(&views, &body, step_name(step), &text, false)?;
        self.list(step, text, statement)
    }

    /// Gives a step its number, which its statement tells the hook if there is one.
    fn list(&mut self, step: &Step, text: String, statement: TokenStream) -> Result<TokenStream, Diagnostic> {
        let number = Literal::usize_unsuffixed(self.listed.len());
        let kind = if self.options.reference { step.kind.definition() } else { step.kind.name() };
        let (flops, at_most) = (cost::step_flops(&step.kind), cost::at_most(&step.kind));
        self.listed.push(StepInfo { kind, text, flops, at_most });
        let Some(hook) = &self.options.step_hook else { return Ok(statement) };
        let hook = names::path(hook).ok_or_else(|| Diagnostic::internal("the hook of the steps is no path"))?;
        Ok(quote!({ #hook(#number); #statement }))
    }

    fn nest(&self, nest: &crate::program::Nest) -> Result<(Views, TokenStream), Diagnostic> {
        let reads = self.reads(&nest.nodes, &|_| true);
        let views = Views::new(self.program, self.plan, &reads, &[nest.store.buffer])?;
        let empty = views.params.iter().any(|param| param.written && param.run() == 0);
        if empty {
            return Ok((views, TokenStream::new()));
        }
        let kernels = !self.options.reference && self.options.vectors;
        let copy = if kernels { transpose::body(self.program, &views, nest)? } else { None };
        let body = copy.map_or_else(|| nest::body(self.program, &views, nest), Ok)?;
        Ok((views, body))
    }

    /// Buffers that the selected nodes read at run time.
    fn reads(&self, nodes: &[Scalar], select: &dyn Fn(usize) -> bool) -> Vec<BufferId> {
        let read = |(i, node): (usize, &Scalar)| match node {
            Scalar::Load { access, .. } if select(i) && crate::plan::inline_constant(self.program, node).is_none() => {
                Some(access.buffer)
            }
            _ => None,
        };
        nodes.iter().enumerate().filter_map(read).collect()
    }

    fn kernel(&self, kernel: &Kernel) -> Result<(Views, TokenStream), Diagnostic> {
        let (reads, writes) = self.kernel_accesses(kernel);
        let views = Views::new(self.program, self.plan, &reads, &writes)?;
        let body = kernel::body(self.program, &views, kernel)?;
        Ok((views, body))
    }

    fn chain(&self, chain: &Chain) -> Result<(Views, TokenStream), Diagnostic> {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for stage in &chain.stages {
            let (more_reads, more_writes) = self.kernel_accesses(&stage.kernel);
            reads.extend(more_reads);
            writes.extend(more_writes);
        }
        let views = Views::new(self.program, self.plan, &reads, &writes)?;
        let body = chain::body(self.program, &views, chain)?;
        Ok((views, body))
    }

    fn attention(&self, attention: &Attention) -> Result<(Views, TokenStream), Diagnostic> {
        let nodes: Vec<Scalar> = attention.nodes().cloned().collect();
        let views = Views::new(self.program, self.plan, &self.reads(&nodes, &|_| true), &attention.writes())?;
        let body = attention::body(self.program, &views, attention)?;
        Ok((views, body))
    }

    fn rows(&self, rows: &Rows) -> Result<(Views, TokenStream), Diagnostic> {
        let nodes: Vec<Scalar> = rows.nodes().cloned().collect();
        let writes: Vec<BufferId> = rows.target().into_iter().collect();
        let views = Views::new(self.program, self.plan, &self.reads(&nodes, &|_| true), &writes)?;
        let views = views.with_numbers(&rows.numbers());
        let empty = views.params.iter().any(|param| param.written && param.run() == 0);
        let body = if empty { TokenStream::new() } else { rows::body(self.program, &views, rows)? };
        Ok((views, body))
    }

    /// Buffers that a kernel reads and buffers that it writes at run time.
    fn kernel_accesses(&self, kernel: &Kernel) -> (Vec<BufferId>, Vec<BufferId>) {
        let roles = kernel::Roles::new(self.program, kernel);
        let reads = self.reads(&kernel.nest.nodes, &|i| Some(i as u32) != roles.replaced);
        ([reads, roles.reads].concat(), [vec![kernel.nest.store.buffer], roles.scratch].concat())
    }

    /// `None` where the elements already lie where they should.
    pub(super) fn reshape(&self, from: BufferId, to: BufferId) -> Result<Option<(Views, TokenStream)>, Diagnostic> {
        let (a, b) = (self.program.buffer(from), self.program.buffer(to));
        if a.layout.storage == b.layout.storage && a.layout.offset == b.layout.offset {
            return Ok(None);
        }
        let views = Views::new(self.program, self.plan, &[from], &[to])?;
        let body = nest::reshape(self.program, &views, from, to)?;
        Ok(Some((views, body)))
    }

    /// A call of the function with this body, which is added unless there is one already.
    /// `finds` says that it sets run-time sizes.
    pub(super) fn call(
        &mut self,
        views: &Views,
        body: &TokenStream,
        name: &str,
        text: &str,
        finds: bool,
    ) -> Result<TokenStream, Diagnostic> {
        let declarations = views.params.iter().map(Param::declaration);
        let variables = self.program.variables.len();
        let (mut shared, mut unpack) = (TokenStream::new(), TokenStream::new());
        if variables > 0 {
            let (ty, names) = (dims::ty(self.program, finds), dims::unpacked(self.program));
            shared = quote!(dims: #ty,);
            unpack = quote!(let #names = *dims;);
        }
        let signature = quote!((cx: rt::Cx<'_>, #shared #(#declarations),*) { #unpack #body });
        let key = signature.to_string();
        let function = match self.known.get(&key) {
            Some(function) => function.clone(),
            None => {
                let function = self.names.function(name, "step");
                let doc = format!(" {text}");
                self.functions.push(quote!(#[doc = #doc] fn #function #signature));
                self.known.insert(key, function.clone());
                function
            }
        };
        let comment = self.comments.statement(text.to_owned());
        let (borrows, arguments) = self.borrow(views)?;
        let dims = (variables > 0).then(|| quote!(dims,));
        Ok(quote!({ #comment #borrows #function(cx, #dims #(#arguments),*); }))
    }

    /// Statements that borrow the regions of arena and state, and the arguments of the call.
    pub fn borrow(&self, views: &Views) -> Result<(TokenStream, Vec<TokenStream>), Diagnostic> {
        let mut borrows = TokenStream::new();
        for (space, memory) in [(Space::Arena, "arena"), (Space::State, "state")] {
            let params: Vec<&Param> = views.params.iter().filter(|param| param.space == space).collect();
            if params.len() > REGIONS {
                return Err(Diagnostic::error(
                    &codes::UNSUPPORTED,
                    format!("a step with more than {REGIONS} tensors cannot be emitted"),
                ));
            }
            if params.is_empty() {
                continue;
            }
            let memory = format_ident!("{memory}");
            let names = params.iter().map(|param| &param.name);
            let regions = params.iter().map(|param| param.region());
            borrows.extend(quote!(let (#(#names,)*) = #memory.get::<(#(#regions,)*)>();));
        }
        let mut arguments = Vec::with_capacity(views.params.len());
        for param in &views.params {
            let name = &param.name;
            arguments.push(match param.space {
                Space::Arena | Space::State => quote!(#name),
                Space::Nowhere if param.written => quote!(&mut []),
                Space::Nowhere => quote!(&[]),
                Space::Input(i) => {
                    let field =
                        self.interface.inputs.get(i).ok_or_else(|| Diagnostic::internal("an input is missing"))?;
                    let ident = field.ident();
                    if field.dynamic { quote!(inputs.#ident.data()) } else { quote!(inputs.#ident) }
                }
                Space::Weights => {
                    let (element, Shape::Run(len)) = (types::storage(param.element), param.shape) else {
                        return Err(Diagnostic::internal("weights with gaps"));
                    };
                    let (len, offset) = (Literal::usize_unsuffixed(len), Literal::usize_unsuffixed(param.offset));
                    quote!(weights.get::<[#element; #len], #offset>())
                }
            });
        }
        Ok((borrows, arguments))
    }

    /// An expression of the only element of a buffer.
    pub(super) fn scalar(&self, buffer: BufferId) -> Result<TokenStream, Diagnostic> {
        let views = Views::new(self.program, self.plan, &[buffer], &[])?;
        let (borrows, arguments) = self.borrow(&views)?;
        let index = dims::Scope::default().index(&views.address(self.program, buffer, &zeros(self.program, buffer)));
        let value = types::widen(self.program.buffer(buffer).element, quote!(rt::View::at(x, #index)));
        Ok(quote!({ #borrows let x = #(#arguments)*; #value }))
    }
}

fn step_name(step: &Step) -> &str {
    step.origins.first().map_or("", |origin| origin.name.as_str())
}

fn zeros(program: &Program, buffer: BufferId) -> Vec<crate::dim::Dim> {
    program.buffer(buffer).dims.iter().map(|_| crate::dim::Dim::constant(0)).collect()
}
