//! Text form of a program: `--emit program`, golden tests, bug reports.

use super::nest::{Const, Scalar};
use super::{Access, Attention, Block, BufferId, Call, Kernel, Loop, Nest, Program, Role, Step, StepKind};
use std::fmt::{self, Write};

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {:?}", self.name)?;
        for info in &self.variables {
            writeln!(f, "  d{} = {} in {}..{}", info.variable.id, info.name, info.variable.min, info.variable.max)?;
        }
        let mut used = Vec::new();
        for step in &self.root.steps {
            let (reads, writes) = step.accesses();
            used.extend(reads.into_iter().chain(writes));
        }
        used.extend(self.inputs.iter().chain(&self.outputs).map(|(buffer, _)| *buffer));
        used.sort();
        used.dedup();
        used.iter().try_for_each(|buffer| self.print_buffer(f, *buffer))?;
        self.print_block(f, &self.root, 1)
    }
}

impl Program {
    fn print_buffer(&self, f: &mut fmt::Formatter<'_>, id: BufferId) -> fmt::Result {
        let buffer = self.buffer(id);
        let role = match &buffer.role {
            Role::Temporary => "temporary".to_owned(),
            Role::Input(i) => format!("input {i}"),
            Role::Output(i) => format!("output {i}"),
            Role::Constant(_) => "constant".to_owned(),
            Role::State(i) => format!("state {i}"),
            Role::Scratch => "scratch".to_owned(),
        };
        let layout = &buffer.layout;
        write!(f, "  b{}: {}[{}] {role}", id.0, buffer.element, join(&buffer.dims))?;
        let plain = super::Layout::row_major(id, &buffer.dims);
        if *layout != plain {
            write!(f, " in b{} at {} strides [{}]", layout.storage.0, layout.offset, join(&layout.strides))?;
        }
        writeln!(f, "  // {:?}", buffer.name)
    }

    fn print_block(&self, f: &mut fmt::Formatter<'_>, block: &Block, depth: usize) -> fmt::Result {
        block.steps.iter().try_for_each(|step| self.print_step(f, step, depth))
    }

    fn print_step(&self, f: &mut fmt::Formatter<'_>, step: &Step, depth: usize) -> fmt::Result {
        let indent = "  ".repeat(depth);
        let names: Vec<String> = step.origins.iter().map(|o| format!("{} {:?}", o.kind, o.name)).collect();
        match &step.kind {
            StepKind::Nest(nest) => write!(f, "{indent}nest {}", print_nest(nest, depth)?)?,
            StepKind::Kernel(kernel) => print_kernel(f, kernel, depth)?,
            StepKind::Chain(chain) => {
                writeln!(f, "{indent}chain of {} lines at a time", chain.height)?;
                for stage in &chain.stages {
                    writeln!(f, "{indent}  {:?}", stage.lines)?;
                    print_kernel(f, &stage.kernel, depth + 1)?;
                    writeln!(f)?;
                }
            }
            StepKind::Attention(attention) => {
                let Attention { scale, seen, height, slots, scratch, .. } = &**attention;
                write!(
                    f,
                    "{indent}attention of {height} rows at a time, {slots} parts in b{}, scale {scale:?}",
                    scratch.0
                )?;
                match seen {
                    Some(keys) => writeln!(f, ", {keys} keys seen by the first row and one more by every next")?,
                    None => writeln!(f)?,
                }
                print_kernel(f, &attention.scores, depth + 1)?;
                for nest in &attention.softmax {
                    write!(f, "\n{indent}  nest {}", print_nest(nest, depth + 1)?)?;
                }
                writeln!(f)?;
                print_kernel(f, &attention.sums, depth + 1)?;
            }
            StepKind::Rows(rows) => {
                writeln!(f, "{indent}rows over {} axes", rows.outer)?;
                for nest in &rows.nests {
                    write!(f, "{indent}  nest {}", print_nest(nest, depth + 1)?)?;
                }
            }
            StepKind::Reshape { from, to } => write!(f, "{indent}b{} = reshape b{}", to.0, from.0)?,
            StepKind::Call(call) => write!(f, "{indent}{}", print_call(call))?,
            StepKind::If { condition, then, otherwise } => {
                writeln!(f, "{indent}if b{}", condition.0)?;
                self.print_block(f, then, depth + 1)?;
                writeln!(f, "{indent}else")?;
                self.print_block(f, otherwise, depth + 1)?;
            }
            StepKind::Size { variable, value } => write!(f, "{indent}d{} = {value}", variable.id)?,
            StepKind::Loop(step) => {
                writeln!(f, "{indent}{}", print_loop(step))?;
                self.print_block(f, &step.body, depth + 1)?;
            }
        }
        writeln!(f, "{indent}  // {}", names.join(", "))
    }
}

fn print_kernel(f: &mut fmt::Formatter<'_>, kernel: &Kernel, depth: usize) -> fmt::Result {
    write!(f, "{}{} parts {:?} ", "  ".repeat(depth), kernel.name(), kernel.parts)?;
    if kernel.epilogue != super::kernel::Epilogue::default() {
        write!(f, "epilogue {:?} ", kernel.epilogue)?;
    }
    write!(f, "{}", print_nest(&kernel.nest, depth)?)
}

fn print_call(call: &Call) -> String {
    let buffers = |list: &[BufferId]| list.iter().map(|b| format!("b{}", b.0)).collect::<Vec<_>>().join(", ");
    let mut text = format!("{} = call {}({})", buffers(&call.outputs), call.function.name, buffers(&call.inputs));
    text += &format!(" integers [{}] floats {:?}", join(&call.integers), call.floats);
    for size in &call.sizes {
        text += &format!(" finds {}", crate::dim::Dim::variable(*size));
    }
    text
}

fn print_loop(step: &Loop) -> String {
    let mut text = format!("loop d{} < {}", step.iteration.id, step.count);
    text += &step.condition.map(|condition| format!(" while b{}", condition.0)).unwrap_or_default();
    text += &step.ran.map(|ran| format!(" ran d{}", ran.id)).unwrap_or_default();
    text += if step.assumed { " at most" } else { "" };
    let carried = step.carried.iter().map(|(end, start)| format!("b{} = b{}", start.0, end.0));
    let sizes = step.sizes.iter().map(|(size, next)| format!("d{} = {next}", size.id));
    text + &format!(" next [{}]", carried.chain(sizes).collect::<Vec<_>>().join(", "))
}

fn print_nest(nest: &Nest, depth: usize) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let indent = "  ".repeat(depth + 1);
    let extents: Vec<String> = nest.axes.iter().enumerate().map(|(i, axis)| format!("i{i}<{}", axis.extent)).collect();
    let (maps, reduce) = extents.split_at(nest.maps.min(extents.len()));
    write!(out, "[{}]", maps.join(", "))?;
    if let Some(reduction) = &nest.reduction {
        write!(out, " {:?} %{} over [{}]", reduction.function, reduction.value, reduce.join(", "))?;
    }
    writeln!(out)?;
    for (i, node) in nest.nodes.iter().enumerate() {
        writeln!(out, "{indent}%{i} = {}", print_scalar(node))?;
    }
    writeln!(out, "{indent}{} = %{}", print_access(&nest.store), nest.result)?;
    Ok(out)
}

fn print_scalar(node: &Scalar) -> String {
    match node {
        Scalar::Const(value) => match value {
            Const::F32(v) => format!("{v:?}f32"),
            Const::F64(v) => format!("{v:?}f64"),
            Const::I32(v) => format!("{v}i32"),
            Const::I64(v) => format!("{v}i64"),
            Const::U64(v) => format!("{v}u64"),
            Const::Bool(v) => v.to_string(),
        },
        Scalar::Index(dim) => format!("index {dim}"),
        Scalar::Load { access, bounds, otherwise } => {
            let mut text = print_access(access);
            for bound in bounds {
                text += &format!(" if {} < {}", bound.value, bound.limit);
            }
            text + &otherwise.map(|node| format!(" else %{node}")).unwrap_or_default()
        }
        Scalar::Unary(function, a) => format!("{function:?} %{a}"),
        Scalar::Binary(function, a, b) => format!("{function:?} %{a} %{b}"),
        Scalar::Select(c, a, b) => format!("Select %{c} %{a} %{b}"),
        Scalar::Cast(element, a) => format!("cast %{a} to {element}"),
        Scalar::Reduced => "reduced".to_owned(),
    }
}

fn print_access(access: &Access) -> String {
    format!("b{}[{}]", access.buffer.0, join(&access.index))
}

fn join(dims: &[crate::dim::Dim]) -> String {
    dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
