//! The state of a model as its user sees it: `State`, `state`, `set_state`, `reset`, and the run-time sizes in it.

use super::dims::{self, Scope};
use super::interface::{Field, Interface};
use super::types;
use crate::diag::{Diagnostic, codes, quote as quoted};
use crate::dim::{Atom, Dim, product};
use crate::graph::SizeSource;
use crate::plan::{Plan, Space, capacity};
use crate::program::state::StateSize;
use crate::program::{BufferId, Program};
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

/// A region of the state.
struct Region {
    element: TokenStream,
    len: Literal,
    offset: Literal,
}

/// Where a buffer lies in the state; `None` where it has no element.
fn region(program: &Program, plan: &Plan, buffer: BufferId) -> Result<Option<Region>, Diagnostic> {
    let placement = plan.placement(program, buffer);
    let placement = placement.ok_or_else(|| Diagnostic::internal("a state variable has no memory"))?;
    let region = Region {
        element: types::storage(program.buffer(buffer).element),
        len: Literal::usize_unsuffixed(capacity(program, buffer)?),
        offset: Literal::usize_unsuffixed(placement.offset),
    };
    Ok((placement.space == Space::State).then_some(region))
}

/// `let name = <shared reference to the buffer>;`
fn borrow(program: &Program, plan: &Plan, name: &str, buffer: BufferId) -> Result<TokenStream, Diagnostic> {
    let name = format_ident!("{name}");
    Ok(match region(program, plan, buffer)? {
        None => quote!(let #name = &[];),
        Some(Region { element, len, offset }) => {
            quote!(let (#name,) = self.memory.state.read::<(rt::R<[#element; #len], #offset>,)>();)
        }
    })
}

/// Binds the run-time sizes that the last run left behind, or else `initial` ones.
fn bind(
    program: &Program,
    plan: &Plan,
    initial: impl Fn(&StateSize) -> TokenStream,
) -> Result<TokenStream, Diagnostic> {
    let state = &program.state;
    let (Some(initialised), Some(kept)) = (state.initialised, state.kept_sizes) else { return Ok(TokenStream::new()) };
    let mut statements = borrow(program, plan, "initialised", initialised)?;
    statements.extend(borrow(program, plan, "kept", kept)?);
    for (i, size) in state.sizes.iter().enumerate() {
        let (name, i, initial) = (dims::variable(size.variable.id), Literal::usize_unsuffixed(i), initial(size));
        statements.extend(quote!(let #name = if initialised[0] != 0 { kept[#i] as usize } else { #initial };));
    }
    Ok(statements)
}

/// Before a run: binds the sizes that are part of the state, and checks that those it will leave behind fit.
///
/// # Errors
/// Sizes that depend on what steps of the run find.
pub fn sizes(program: &Program, plan: &Plan) -> Result<TokenStream, Diagnostic> {
    let scope = Scope::default();
    for size in &program.state.sizes {
        if found_late(program, &size.initial) {
            return Err(late(program, size, "at first"));
        }
    }
    let mut statements = bind(program, plan, |size| scope.index(&size.initial))?;
    for size in &program.state.sizes {
        let fits = |dim: &Dim| dim.upper_bound() <= size.variable.max;
        let mut check = |dim: &Dim| {
            let (name, max, value) =
                (name(program, size), Literal::i64_unsuffixed(size.variable.max), scope.index(dim));
            statements.extend(quote! {
                if #value > #max { return Err(rt::RunError::Bound { name: #name, bound: #max, found: #value }); }
            });
        };
        if !fits(&size.initial) {
            check(&Dim::variable(size.variable));
        }
        if !fits(&size.next) {
            check(&size.next);
            if found_late(program, &size.next) {
                return Err(late(program, size, "after a run"));
            }
        }
    }
    Ok(statements)
}

fn name(program: &Program, size: &StateSize) -> String {
    program.variables.get(size.variable.id as usize).map_or_else(String::new, |info| info.name.clone())
}

fn found_late(program: &Program, dim: &Dim) -> bool {
    let mut late = false;
    dim.for_each_atom(&mut |atom| {
        if let Atom::Variable(v) = atom {
            late |= program.variables.get(v.id as usize).is_some_and(|info| info.source == SizeSource::Step);
        }
    });
    late
}

fn late(program: &Program, size: &StateSize, when: &str) -> Diagnostic {
    let message = format!("the size {} of a state variable depends on data {when}", quoted(&name(program, size)));
    Diagnostic::error(&codes::UNSUPPORTED, message)
        .help("give a larger bound, so that every size that is possible fits")
}

/// The structure `State` and the methods that use it; nothing for a model without state.
///
/// # Errors
/// Internal errors.
pub fn items(program: &Program, plan: &Plan, interface: &Interface) -> Result<TokenStream, Diagnostic> {
    let reset = quote! {
        #[doc = " Makes the next run the first one: state begins anew."]
        pub fn reset(&mut self) {
            self.memory.state.clear();
        }
    };
    if interface.states.is_empty() {
        let hidden = !program.state.hidden.is_empty();
        return Ok(if hidden { quote!(impl super::Model { #reset }) } else { TokenStream::new() });
    }
    let doc = " The state variables of a model. One with run-time sizes is empty before the first run.";
    let structure = super::interface::structure("State", doc, &interface.states);
    let infos: Vec<TokenStream> = program
        .state
        .variables
        .iter()
        .zip(&interface.states)
        .map(|((_, variable), field)| super::interface::info(variable, field))
        .collect::<Result<_, _>>()?;
    let count = Literal::usize_unsuffixed(infos.len());
    let (get, set) = (get(program, plan, interface)?, set(program, plan, interface)?);
    Ok(quote! {
        #structure
        #[doc = " Names, types and dimensions of the state variables."]
        pub const STATE: [rt::TensorInfo; #count] = [#(#infos),*];
        impl super::Model {
            #reset
            #get
            #set
        }
    })
}

fn get(program: &Program, plan: &Plan, interface: &Interface) -> Result<TokenStream, Diagnostic> {
    let scope = Scope::default();
    let bind = bind(program, plan, |_| quote!(0))?;
    let mut fields = Vec::new();
    for field in &interface.states {
        let (borrow, name) = (borrow(program, plan, "memory", field.buffer)?, field.ident());
        let value = if field.dynamic {
            let (dims, len) = (field.dims.iter().map(|dim| scope.index(dim)), scope.index(&product(&field.dims)));
            quote!(rt::TensorView::new(rt::View::span(memory, 0, #len), [#(#dims),*]))
        } else {
            quote!(memory)
        };
        fields.push(quote!(#name: { #borrow #value }));
    }
    Ok(quote! {
        #[doc = " The state that the last run left behind. Before the first run all of it is zeros."]
        #[must_use]
        pub fn state(&self) -> State<'_> {
            #bind
            State { #(#fields),* }
        }
    })
}

fn set(program: &Program, plan: &Plan, interface: &Interface) -> Result<TokenStream, Diagnostic> {
    let fallible = !program.state.sizes.is_empty();
    let (mut checks, mut copies) = (TokenStream::new(), TokenStream::new());
    let mut bound: Vec<u32> = Vec::new();
    for field in interface.states.iter().filter(|field| field.dynamic) {
        checks.extend(check(program, field, &mut bound));
    }
    for field in &interface.states {
        let name = field.ident();
        let Some(Region { element, len, offset }) = region(program, plan, field.buffer)? else { continue };
        let data = if field.dynamic { quote!(state.#name.data()) } else { quote!(state.#name) };
        copies.extend(quote! {
            let (memory,) = self.memory.state.get::<(rt::W<[#element; #len], #offset>,)>();
            for (to, from) in memory.iter_mut().zip(#data) { *to = *from; }
        });
    }
    if let Some(Region { element, len, offset }) = kept(program, plan)? {
        let values = program.state.sizes.iter().map(|size| dims::variable(size.variable.id));
        copies.extend(quote! {
            let (kept,) = self.memory.state.get::<(rt::W<[#element; #len], #offset>,)>();
            *kept = [#(#values as i64),*];
        });
    }
    if let Some(buffer) = program.state.initialised
        && let Some(Region { offset, .. }) = region(program, plan, buffer)?
    {
        copies.extend(quote! {
            let (initialised,) = self.memory.state.get::<(rt::W<[u8; 1], #offset>,)>();
            *initialised = [1];
        });
    }
    let (ty, value, errors) = match fallible {
        true => (quote!(-> Result<(), rt::RunError>), quote!(Ok(())), super::module::errors_doc()),
        false => (TokenStream::new(), TokenStream::new(), TokenStream::new()),
    };
    Ok(quote! {
        #[doc = " Sets all state variables, as if a run had left them behind."]
        #errors
        pub fn set_state(&mut self, state: State<'_>) #ty {
            #checks
            #copies
            #value
        }
    })
}

fn kept(program: &Program, plan: &Plan) -> Result<Option<Region>, Diagnostic> {
    program.state.kept_sizes.map_or(Ok(None), |buffer| region(program, plan, buffer))
}

/// Binds the sizes that a given variable is the first one to have, and checks all its dimensions.
fn check(program: &Program, field: &Field, bound: &mut Vec<u32>) -> TokenStream {
    let scope = Scope::default();
    let (name, text) = (field.ident(), &field.name);
    let mut statements = TokenStream::new();
    for (axis, dim) in field.dims.iter().enumerate() {
        let at = Literal::usize_unsuffixed(axis);
        let size = program.state.sizes.iter().find(|size| *dim == Dim::variable(size.variable));
        if let Some(size) = size.filter(|size| !bound.contains(&size.variable.id)) {
            bound.push(size.variable.id);
            let (variable, max) = (dims::variable(size.variable.id), Literal::i64_unsuffixed(size.variable.max));
            let which = self::name(program, size);
            statements.extend(quote! {
                let #variable = state.#name.dims()[#at];
                if #variable > #max {
                    return Err(rt::RunError::Bound { name: #which, bound: #max, found: #variable });
                }
            });
            continue;
        }
        let expected = scope.index(dim);
        statements.extend(quote! {
            if state.#name.dims()[#at] != #expected {
                return Err(rt::RunError::Mismatch { name: #text, left: #expected, right: state.#name.dims()[#at] });
            }
        });
    }
    let expected = scope.index(&product(&field.dims));
    statements.extend(quote! {
        if state.#name.data().len() != #expected {
            return Err(rt::RunError::Length { name: #text, expected: #expected, found: state.#name.data().len() });
        }
    });
    statements
}
