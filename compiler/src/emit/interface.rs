//! The typed interface: `Inputs`, `Outputs` and their descriptions.

use super::{names, types};
use crate::diag::{Diagnostic, codes, quote as quoted};
use crate::dim::{Atom, Dim};
use crate::element::ElementType;
use crate::graph::{self, SizeSource};
use crate::plan::{Placement, Plan, Space, capacity};
use crate::program::{BufferId, Layout, Program};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// One input or output as the user of generated code sees it.
#[derive(Clone, Debug)]
pub struct Field {
    /// Field of `Inputs` or `Outputs`.
    pub name: String,
    /// Element type.
    pub element: ElementType,
    /// Dimensions.
    pub dims: Vec<Dim>,
    /// Whether data and dimensions are given as a `TensorView` because a dimension is known at run time only.
    pub dynamic: bool,
    /// The buffer.
    pub buffer: BufferId,
}

/// All inputs and outputs.
#[derive(Clone, Debug)]
pub struct Interface {
    /// In the order of the model.
    pub inputs: Vec<Field>,
    /// In the order of the model.
    pub outputs: Vec<Field>,
    /// State variables, in the order of the model.
    pub states: Vec<Field>,
    /// Whether `run` checks anything at run time.
    pub fallible: bool,
    /// Whether an output is memory of an input, so that their lifetimes are one.
    pub shares_inputs: bool,
}

impl Interface {
    /// Names and types of a program's inputs and outputs.
    ///
    /// # Errors
    /// Outputs that are not row-major.
    pub fn new(program: &Program, plan: &Plan) -> Result<Self, Diagnostic> {
        let fields = |list: &[(BufferId, graph::Interface)], kind: &str| -> Vec<Field> {
            let mut taken = names::Names::default();
            list.iter().map(|(buffer, interface)| field(program, *buffer, interface, kind, &mut taken)).collect()
        };
        let (inputs, outputs) = (fields(&program.inputs, "input"), fields(&program.outputs, "output"));
        let states = fields(&program.state.variables, "variable");
        for output in &outputs {
            let layout = &program.buffer(output.buffer).layout;
            if layout.strides != Layout::row_major(layout.storage, &output.dims).strides
                && output.dims.iter().all(|d| !d.is(0))
            {
                return Err(Diagnostic::internal(format!("output {} is not row-major", quoted(&output.name))));
            }
        }
        let shares = |field: &Field| {
            matches!(plan.placement(program, field.buffer), Some(Placement { space: Space::Input(_), .. }))
        };
        let shares_inputs = outputs.iter().any(shares);
        let given = program.variables.iter().any(|info| info.source != SizeSource::Step);
        let fallible = given || !program.checks.is_empty() || !super::blocks::doubtful(program).is_empty();
        Ok(Interface { inputs, outputs, states, fallible, shares_inputs })
    }
}

fn field(program: &Program, id: BufferId, interface: &graph::Interface, kind: &str, taken: &mut names::Names) -> Field {
    let buffer = program.buffer(id);
    let text = interface.tensor_names.first().filter(|name| !name.is_empty()).unwrap_or(&interface.name);
    Field {
        name: taken.name(text, kind).to_string(),
        element: buffer.element,
        dims: buffer.dims.clone(),
        dynamic: buffer.dims.iter().any(|dim| dim.as_const().is_none()),
        buffer: id,
    }
}

impl Field {
    /// The field as an identifier.
    pub fn ident(&self) -> Ident {
        format_ident!("{}", self.name)
    }

    fn len(&self) -> usize {
        self.dims.iter().map(|dim| dim.as_usize().unwrap_or(0)).product()
    }

    /// The field's type.
    pub fn ty(&self) -> TokenStream {
        let element = types::storage(self.element);
        if self.dynamic {
            let rank = Literal::usize_unsuffixed(self.dims.len());
            return quote!(rt::TensorView<'a, #element, #rank>);
        }
        let len = Literal::usize_unsuffixed(self.len());
        quote!(&'a [#element; #len])
    }

    fn doc(&self) -> String {
        let dims: Vec<String> = self.dims.iter().map(ToString::to_string).collect();
        format!(" `{}[{}]`, row-major{}.", self.element, dims.join(", "), stored_as(self.element))
    }
}

/// What the Rust type of an element does not say.
fn stored_as(element: ElementType) -> String {
    let bits = element.bits();
    match element {
        ElementType::Boolean => ", one byte per value: 0 or 1".to_owned(),
        ElementType::Nf4 | ElementType::F4e2m1 => ", one byte per value: its code, 0 to 15".to_owned(),
        ElementType::I4 => ", one byte per value: -8 to 7".to_owned(),
        _ if (1..8).contains(&bits) => format!(", one byte per value: 0 to {}", (1 << bits) - 1),
        _ => String::new(),
    }
}

/// `Inputs`, `Outputs`, conversions, `INPUTS`, `OUTPUTS`.
pub fn items(program: &Program, interface: &Interface) -> Result<TokenStream, Diagnostic> {
    let inputs = structure("Inputs", " The inputs of one run.", &interface.inputs);
    let outputs = structure("Outputs", " The outputs of one run, valid until the next one.", &interface.outputs);
    let infos = |list: &[(BufferId, graph::Interface)], fields: &[Field]| -> Result<Vec<TokenStream>, Diagnostic> {
        list.iter().zip(fields).map(|((_, interface), field)| info(interface, field)).collect()
    };
    let input_infos = infos(&program.inputs, &interface.inputs)?;
    let output_infos = infos(&program.outputs, &interface.outputs)?;
    let (input_count, output_count) =
        (Literal::usize_unsuffixed(input_infos.len()), Literal::usize_unsuffixed(output_infos.len()));
    let bare = match interface.inputs.as_slice() {
        [only] => {
            let (name, ty) = (only.ident(), only.ty());
            quote! {
                impl<'a> From<#ty> for Inputs<'a> {
                    fn from(#name: #ty) -> Self {
                        Inputs { #name }
                    }
                }
            }
        }
        _ => TokenStream::new(),
    };
    Ok(quote! {
        #inputs
        #bare
        #outputs
        #[doc = " Names, types and dimensions of the inputs."]
        pub const INPUTS: [rt::TensorInfo; #input_count] = [#(#input_infos),*];
        #[doc = " Names, types and dimensions of the outputs."]
        pub const OUTPUTS: [rt::TensorInfo; #output_count] = [#(#output_infos),*];
    })
}

/// A structure with a field for every input, output or variable.
pub fn structure(name: &str, doc: &str, fields: &[Field]) -> TokenStream {
    let name = format_ident!("{name}");
    let members = fields.iter().map(|field| {
        let (doc, name, ty) = (field.doc(), field.ident(), field.ty());
        quote!(#[doc = #doc] pub #name: #ty,)
    });
    let none =
        fields.is_empty().then(|| quote!(#[doc = " There are none."] pub none: core::marker::PhantomData<&'a ()>,));
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug)]
        pub struct #name<'a> { #(#members)* #none }
    }
}

/// The description of an input, output or variable.
///
/// # Errors
/// A dimension without bound.
pub fn info(interface: &graph::Interface, field: &Field) -> Result<TokenStream, Diagnostic> {
    let (name, tensor_names, element) = (&interface.name, &interface.tensor_names, types::element(field.element));
    let mut dims = Vec::with_capacity(field.dims.len());
    for dim in &field.dims {
        dims.push(match dim.as_usize() {
            Some(size) => {
                let size = Literal::usize_unsuffixed(size);
                quote!(rt::TensorDim::Fixed(#size))
            }
            None => {
                let bound = usize::try_from(dim.upper_bound()).map_err(|_| {
                    Diagnostic::error(&codes::UNBOUNDED, format!("{} has no upper bound", quoted(&field.name)))
                })?;
                let bound = Literal::usize_unsuffixed(bound);
                quote!(rt::TensorDim::AtMost(#bound))
            }
        });
    }
    Ok(
        quote!(rt::TensorInfo { name: #name, tensor_names: &[#(#tensor_names),*], element: #element, dims: &[#(#dims),*] }),
    )
}

/// Binds run-time sizes from the dimensions of the inputs and the state, and checks every dimension and length.
pub fn checks(program: &Program, plan: &Plan, interface: &Interface) -> Result<TokenStream, Diagnostic> {
    let mut statements = TokenStream::new();
    let mut bound = vec![false; program.variables.len()];
    for info in &program.variables {
        let SizeSource::Input(input, axis) = info.source else { continue };
        let name = super::dims::variable(info.variable.id);
        let Some(field) = interface.inputs.get(input) else {
            return Err(Diagnostic::internal("a size of a missing input"));
        };
        let (ident, axis) = (field.ident(), Literal::usize_unsuffixed(axis));
        let (text, max) = (info.name.clone(), Literal::i64_unsuffixed(info.variable.max));
        let low = usize::try_from(info.variable.min).ok().filter(|min| *min > 0).map(|min| {
            let min = Literal::usize_unsuffixed(min);
            quote!(if #name < #min { return Err(rt::RunError::Mismatch { name: #text, left: #min, right: #name }); })
        });
        statements.extend(quote! {
            let #name = inputs.#ident.dims()[#axis];
            if #name > #max { return Err(rt::RunError::Bound { name: #text, bound: #max, found: #name }); }
            #low
        });
        if let Some(slot) = bound.get_mut(info.variable.id as usize) {
            *slot = true;
        }
    }
    let scope = super::dims::Scope::default();
    statements.extend(super::state::sizes(program, plan)?);
    statements.extend(equalities(program, false));
    for field in interface.inputs.iter().filter(|field| field.dynamic) {
        let (ident, text) = (field.ident(), &field.name);
        for (axis, dim) in field.dims.iter().enumerate() {
            let mut known = true;
            dim.for_each_atom(&mut |atom| {
                if let Atom::Variable(v) = atom {
                    known &= bound.get(v.id as usize).copied().unwrap_or(false);
                }
            });
            if !known {
                return Err(Diagnostic::error(
                    &codes::UNSUPPORTED,
                    format!("the sizes of input {} are not bound", quoted(&field.name)),
                ));
            }
            let (axis, size) = (Literal::usize_unsuffixed(axis), scope.index(dim));
            statements.extend(quote! {
                if inputs.#ident.dims()[#axis] != #size {
                    return Err(rt::RunError::Mismatch { name: #text, left: #size, right: inputs.#ident.dims()[#axis] });
                }
            });
        }
        let expected = scope.index(&crate::dim::product(&field.dims));
        statements.extend(quote! {
            if inputs.#ident.data().len() != #expected {
                return Err(rt::RunError::Length { name: #text, expected: #expected, found: inputs.#ident.data().len() });
            }
        });
    }
    Ok(statements)
}

/// Run-time checks of sizes that must be equal: those that depend on sizes that steps find, or the others.
fn equalities(program: &Program, found: bool) -> TokenStream {
    let scope = super::dims::Scope::default();
    let late = |dim: &Dim| {
        let mut late = false;
        dim.for_each_atom(&mut |atom| {
            if let Atom::Variable(v) = atom {
                late |= program.variables.get(v.id as usize).is_some_and(|info| info.source == SizeSource::Step);
            }
        });
        late
    };
    let pairs = program.checks.iter().filter(|(left, right)| (late(left) || late(right)) == found);
    let statements = pairs.map(|(left, right)| {
        let (text, left, right) = (format!("{left} = {right}"), scope.index(left), scope.index(right));
        quote! {
            if #left != #right {
                return Err(rt::RunError::Mismatch { name: #text, left: #left, right: #right });
            }
        }
    });
    quote!(#(#statements)*)
}

/// After all steps: names the sizes that steps found, and checks them.
pub fn late_checks(program: &Program) -> Result<TokenStream, Diagnostic> {
    if !super::dims::found(program) {
        return Ok(TokenStream::new());
    }
    let doubtful = super::blocks::doubtful(program);
    let equal = equalities(program, true);
    if doubtful.is_empty() && equal.is_empty() {
        return Ok(name_sizes(program));
    }
    let mut arms = TokenStream::new();
    for info in program.variables.iter().filter(|info| doubtful.contains(&info.variable.id)) {
        let (which, text) = (Literal::usize_unsuffixed(info.variable.id as usize + 1), &info.name);
        let max = usize::try_from(info.variable.max)
            .map_err(|_| Diagnostic::error(&codes::UNBOUNDED, format!("{} has no upper bound", quoted(text))))?;
        let max = Literal::usize_unsuffixed(max);
        arms.extend(quote!(#which => return Err(rt::RunError::Bound { name: #text, bound: #max, found }),));
    }
    let names = name_sizes(program);
    Ok(quote! {
        let [.., outside, found] = *dims;
        match outside { #arms _ => {} }
        #names
        #equal
    })
}

fn name_sizes(program: &Program) -> TokenStream {
    let pattern = super::dims::unpacked(program);
    quote!(let #pattern = *dims;)
}

/// The value of one output, given the local variables that hold borrowed regions.
pub fn output_value(
    program: &Program,
    plan: &Plan,
    field: &Field,
    region: Option<&Ident>,
) -> Result<TokenStream, Diagnostic> {
    let placement =
        plan.placement(program, field.buffer).ok_or_else(|| Diagnostic::internal("an output has no memory"))?;
    let scope = super::dims::Scope::default();
    let whole = match placement.space {
        Space::Nowhere => quote!(&[]),
        Space::Input(i) => {
            let input = program.inputs.get(i).map(|(buffer, _)| *buffer);
            let same = input.is_some_and(|input| program.buffer(input).len() == program.buffer(field.buffer).len());
            if !same || !program.buffer(field.buffer).layout.offset.is(0) {
                return Err(Diagnostic::error(
                    &codes::UNSUPPORTED,
                    "an output that is a part of an input cannot be emitted yet",
                ));
            }
            let name = format_ident!("input_{i}");
            quote!(#name)
        }
        Space::Weights => {
            let element = types::storage(field.element);
            let size = crate::plan::element_bytes(field.element).unwrap_or(1);
            let offset = program.buffer(field.buffer).layout.offset.as_usize().unwrap_or(0) * size;
            let (len, offset) =
                (Literal::usize_unsuffixed(field.len()), Literal::usize_unsuffixed(placement.offset + offset));
            quote!(weights.get::<[#element; #len], #offset>())
        }
        Space::Arena | Space::State => quote!(#region),
    };
    if !field.dynamic {
        return Ok(whole);
    }
    let dims = field.dims.iter().map(|dim| scope.index(dim));
    let len = scope.index(&crate::dim::product(&field.dims));
    let data = if placement.space == Space::Nowhere { quote!(&[]) } else { quote!(#whole.span(0, #len)) };
    Ok(quote!(rt::TensorView::new(#data, [#(#dims),*])))
}

/// Number of elements for which an output's region is borrowed.
pub fn output_capacity(program: &Program, field: &Field) -> Result<usize, Diagnostic> {
    if field.dynamic { capacity(program, program.buffer(field.buffer).layout.storage) } else { Ok(field.len()) }
}
