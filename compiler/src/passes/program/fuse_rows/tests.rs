//! What is joined, what is not, and that the results stay the same bits.

use super::*;
use crate::dim::Dim;
use crate::element::ElementType;
use crate::graph::Origin;
use crate::program::Role;
use crate::program::builder::Builder;
use crate::program::interpret::interpret;
use crate::program::nest::{Binary, ReduceFn, Unary};
use crate::program::verify;
use crate::tensor::Tensor;

const ROWS: usize = 3;
const WIDTH: usize = 5;

/// Adds `out[i, ..] = sum(f(x[i, k], rows of numbers))`, kept as a dimension.
fn number(builder: &mut Builder, x: BufferId, function: ReduceFn, mean: Option<BufferId>) -> BufferId {
    let out = builder.temporary(ElementType::F32, vec![Dim::from(ROWS), Dim::constant(1)]);
    let mut n = builder.nest(&[Dim::from(ROWS), Dim::constant(1)]);
    let map = n.map_axes();
    let k = n.reduction_axis(&Dim::from(WIDTH));
    let mut value = n.load(x, &[map[0].clone(), k]).unwrap();
    if let Some(mean) = mean {
        let mean = n.load(mean, &[map[0].clone(), Dim::constant(0)]).unwrap();
        let centred = n.binary(Binary::Sub, value, mean);
        value = n.binary(Binary::Mul, centred, centred);
    }
    let reduced = n.reduce(function, value);
    n.store(out, &map, reduced);
    out
}

/// Adds `out[i, j] = f(x[i, j], number[i])`, of an exponential if wanted.
fn row(builder: &mut Builder, out: BufferId, x: BufferId, function: Binary, number: BufferId, exp: bool) {
    let mut n = builder.nest(&[Dim::from(ROWS), Dim::from(WIDTH)]);
    let map = n.map_axes();
    let value = n.load(x, &map).unwrap();
    let number = n.load(number, &[map[0].clone(), Dim::constant(0)]).unwrap();
    let value = n.binary(function, value, number);
    let value = if exp { n.unary(Unary::Exp, value) } else { value };
    n.store(out, &map, value);
}

/// A program over one constant: `build` gets builder, the constant and the output.
fn program(build: impl FnOnce(&mut Builder, BufferId, BufferId)) -> Program {
    let mut program = Program::default();
    let values: Vec<f32> = (0..ROWS * WIDTH).map(|i| (i as f32 * 0.7).sin()).collect();
    let x = program.add_constant("x", Tensor::from_f32s(vec![ROWS, WIDTH], &values));
    let dims = program.buffer(x).dims.clone();
    let out = program.add_buffer("out", ElementType::F32, dims, Role::Output(0));
    program.outputs.push((out, Default::default()));
    let origin = Origin::default();
    let mut builder = Builder::new(&mut program, &[], &[], &[], &origin);
    build(&mut builder, x, out);
    program.root.steps = builder.into_steps();
    program
}

/// Runs the pass; the number of nests in each step that is left, after a comparison of results.
fn fused(mut program: Program) -> (Program, Vec<usize>) {
    let before = interpret(&program, &[]).unwrap();
    fuse_rows(&mut program, &Options::default(), &mut Diagnostics::default());
    verify(&program).unwrap();
    let after = interpret(&program, &[]).unwrap();
    assert_eq!(before[0].bytes.as_slice(), after[0].bytes.as_slice());
    let nests = program.root.steps.iter().map(|step| match &step.kind {
        StepKind::Rows(rows) => rows.nests.len(),
        _ => 1,
    });
    let nests = nests.collect();
    (program, nests)
}

#[test]
fn mean_and_variance_become_variables() {
    let (program, nests) = fused(program(|builder, x, out| {
        let mean = number(builder, x, ReduceFn::Sum, None);
        let variance = number(builder, x, ReduceFn::Sum, Some(mean));
        let centred = builder.temporary(ElementType::F32, vec![Dim::from(ROWS), Dim::from(WIDTH)]);
        row(builder, centred, x, Binary::Sub, mean, false);
        row(builder, out, centred, Binary::Div, variance, false);
    }));
    assert_eq!(nests, [4]);
    let [Step { kind: StepKind::Rows(rows), .. }] = &program.root.steps[..] else { panic!("one step was expected") };
    assert_eq!((rows.outer, rows.numbers().len()), (1, 2));
    assert_eq!(program.root.steps[0].accesses().1, [rows.target().unwrap()]);
}

#[test]
fn a_softmax_keeps_its_exponentials_in_the_result() {
    let (_, nests) = fused(program(|builder, x, out| {
        let largest = number(builder, x, ReduceFn::Max, None);
        let exponentials = builder.temporary(ElementType::F32, vec![Dim::from(ROWS), Dim::from(WIDTH)]);
        row(builder, exponentials, x, Binary::Sub, largest, true);
        let sum = number(builder, exponentials, ReduceFn::Sum, None);
        row(builder, out, exponentials, Binary::Div, sum, false);
    }));
    assert_eq!(nests, [4]);
}

#[test]
fn what_another_step_reads_is_stored() {
    let (_, nests) = fused(program(|builder, x, out| {
        let mean = number(builder, x, ReduceFn::Sum, None);
        let other = builder.temporary(ElementType::F32, vec![Dim::from(ROWS), Dim::from(WIDTH)]);
        row(builder, other, x, Binary::Sub, mean, false);
        row(builder, out, x, Binary::Sub, mean, false);
    }));
    assert_eq!(nests, [1, 1, 1]);
}

#[test]
fn rows_of_others_are_not_handed_on() {
    let (_, nests) = fused(program(|builder, x, out| {
        let sum = number(builder, x, ReduceFn::Sum, None);
        let mut n = builder.nest(&[Dim::from(ROWS), Dim::from(WIDTH)]);
        let map = n.map_axes();
        let value = n.load(x, &map).unwrap();
        let next = map[0].clone() * -1 + (ROWS as i64 - 1);
        let number = n.load(sum, &[next, Dim::constant(0)]).unwrap();
        let value = n.binary(Binary::Mul, value, number);
        n.store(out, &map, value);
    }));
    assert_eq!(nests, [1, 1]);
}

#[test]
fn windows_stay_apart_where_there_are_vectors() {
    let (_, nests) = fused(program(|builder, x, out| {
        let sums = builder.temporary(ElementType::F32, vec![Dim::from(ROWS), Dim::from(ROWS)]);
        let mut n = builder.nest(&[Dim::from(ROWS), Dim::from(ROWS)]);
        let map = n.map_axes();
        let k = n.reduction_axis(&Dim::from(WIDTH - ROWS + 1));
        let value = n.load(x, &[map[0].clone(), map[1].clone() + k]).unwrap();
        let sum = n.reduce(ReduceFn::Sum, value);
        n.store(sums, &map, sum);
        let mut n = builder.nest(&[Dim::from(ROWS), Dim::from(ROWS)]);
        let map = n.map_axes();
        let value = n.load(sums, &map).unwrap();
        n.store(out, &map, value);
    }));
    assert_eq!(nests, [1, 1]);
}
