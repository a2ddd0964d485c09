//! Random shapes against independent, naive models: size expressions, broadcasting, views, slices.

use include_ir_compiler::dim::{Atom, Dim, Variable, product};
use include_ir_compiler::element::ElementType;
use include_ir_compiler::program::interpret::interpret;
use include_ir_compiler::program::{BufferId, Layout, reshape};
use include_ir_compiler::source::Source;
use include_ir_compiler::tensor::Tensor;
use include_ir_compiler::{Options, stages};
use model::{Array, Ir, unravel};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

#[path = "properties/model.rs"]
mod model;

/// The same cases everywhere; `PROPTEST_RNG_SEED` gives others.
fn bounded(cases: u32) -> ProptestConfig {
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..ProptestConfig::default() }
}

/// A size expression as a tree, with a meaning of its own.
#[derive(Clone, Debug)]
enum Expression {
    Constant(i64),
    Variable(usize),
    Two(usize, Box<Expression>, Box<Expression>),
}

const VARIABLES: [(i64, i64); 3] = [(1, 9), (0, 5), (2, 40)];
const OPERATIONS: usize = 8;

fn expression() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![(-7i64..12).prop_map(Expression::Constant), (0..3usize).prop_map(Expression::Variable)];
    leaf.prop_recursive(4, 24, 2, |inner| {
        (0..OPERATIONS, inner.clone(), inner).prop_map(|(f, a, b)| Expression::Two(f, Box::new(a), Box::new(b)))
    })
}

impl Expression {
    fn dim(&self) -> Dim {
        match self {
            Expression::Constant(value) => Dim::constant(*value),
            Expression::Variable(i) => Dim::variable(variable(*i)),
            Expression::Two(f, a, b) => {
                let (a, b) = (a.dim(), b.dim());
                match f {
                    0 => a + &b,
                    1 => a - &b,
                    2 => a * &b,
                    3 => a.floor_div(&b),
                    4 => a.ceil_div(&b),
                    5 => a.modulo(&b),
                    6 => a.minimum(&b),
                    _ => a.maximum(&b),
                }
            }
        }
    }

    /// `None` where a divisor is not above zero, which sizes never are, or a number is so large that sizes saturate.
    fn value(&self, at: &[i64]) -> Option<i128> {
        let value = match self {
            Expression::Constant(value) => i128::from(*value),
            Expression::Variable(i) => i128::from(at[*i]),
            Expression::Two(f, a, b) => {
                let (a, b) = (a.value(at)?, b.value(at)?);
                if (3..=5).contains(f) && b <= 0 {
                    return None;
                }
                match f {
                    0 => a + b,
                    1 => a - b,
                    2 => a * b,
                    3 => a.div_euclid(b),
                    4 => (a + b - 1).div_euclid(b),
                    5 => a.rem_euclid(b),
                    6 => a.min(b),
                    _ => a.max(b),
                }
            }
        };
        (value.abs() < 1 << 40).then_some(value)
    }
}

fn variable(i: usize) -> Variable {
    Variable::new(i as u32, VARIABLES[i].0, VARIABLES[i].1)
}

fn point() -> impl Strategy<Value = Vec<i64>> {
    VARIABLES.map(|(min, max)| min..=max).to_vec()
}

proptest! {
    #![proptest_config(bounded(3000))]

    /// The normal form means what the tree means, at every point inside the bounds, and lies in its own range.
    #[test]
    fn normal_forms_keep_the_value(tree in expression(), points in proptest::collection::vec(point(), 6)) {
        let dim = tree.dim();
        let range = dim.range();
        for at in &points {
            let Some(want) = tree.value(at) else { continue };
            let got = dim.evaluate(&|atom| match atom { Atom::Variable(v) => at[v.id as usize], _ => 0 });
            prop_assert_eq!(i128::from(got), want, "{} at {:?}", &dim, at);
            prop_assert!(range.min <= got && got <= range.max, "{} is {} at {:?}, not in {:?}", &dim, got, at, range);
            let fixed = dim.substitute(&|atom| match atom {
                Atom::Variable(v) => Some(Dim::constant(at[v.id as usize])),
                _ => None,
            });
            prop_assert_eq!(fixed.as_const().map(i128::from), Some(want), "{} at {:?}", &dim, at);
        }
    }

    /// An exact quotient is one.
    #[test]
    fn quotients_multiply_back(a in expression(), b in expression()) {
        let (a, b) = (a.dim(), b.dim());
        if let Some(quotient) = a.quotient(&b) {
            prop_assert_eq!(quotient * &b, a.clone());
        }
        let multiple = a.clone() * &b;
        if b.range().min > 0 && let Some(quotient) = multiple.quotient(&b) {
            prop_assert_eq!(quotient, a);
        }
    }
}

/// Dimensions whose product is small.
fn shape(most_rank: usize) -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![4 => 1..6usize, 1 => Just(1), 1 => Just(0)], 0..=most_rank)
}

/// Two ways to cut the same elements: both multiply up the same factors.
fn regrouped() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    let cuts = |n: usize| proptest::collection::vec(any::<bool>(), n);
    proptest::collection::vec(prop_oneof![Just(1), Just(2), Just(3), Just(5)], 1..6).prop_flat_map(move |factors| {
        let n = factors.len();
        (Just(factors), cuts(n), cuts(n)).prop_map(|(factors, a, b)| (group(&factors, &a), group(&factors, &b)))
    })
}

fn group(factors: &[usize], cuts: &[bool]) -> Vec<usize> {
    let mut dims = vec![1];
    for (factor, cut) in factors.iter().zip(cuts) {
        if *cut {
            dims.push(1);
        }
        *dims.last_mut().unwrap() *= factor;
    }
    dims
}

fn constants(values: &[usize]) -> Vec<Dim> {
    values.iter().map(|value| Dim::constant(*value as i64)).collect()
}

fn address(layout: &Layout, index: &[usize]) -> i64 {
    let offset = layout.offset.as_const().unwrap();
    index.iter().zip(&layout.strides).fold(offset, |sum, (i, stride)| sum + *i as i64 * stride.as_const().unwrap())
}

/// A layout with dimensions in any order in memory, and gaps.
fn layout(dims: &[usize], keys: &[u8], gaps: &[usize]) -> Layout {
    let mut order: Vec<usize> = (0..dims.len()).collect();
    order.sort_by_key(|i| keys.get(*i));
    let (mut strides, mut step) = (vec![0; dims.len()], 1);
    for (i, gap) in order.iter().rev().zip(gaps) {
        strides[*i] = step;
        step *= dims[*i] + gap;
    }
    Layout { storage: BufferId(0), offset: Dim::constant(3), strides: constants(&strides) }
}

proptest! {
    #![proptest_config(bounded(2000))]

    /// A view under other dimensions reads the same elements in the same order.
    #[test]
    fn views_address_the_same_elements(
        (from, to) in regrouped(),
        keys in proptest::collection::vec(0..3u8, 6),
        gaps in proptest::collection::vec(prop_oneof![5 => Just(0usize), 1 => 0..3usize], 6),
    ) {
        let layout = layout(&from, &keys, &gaps);
        let view = reshape::view(&layout, &constants(&from), &constants(&to));
        let in_order = keys.windows(2).take(from.len() - 1).all(|pair| pair[0] <= pair[1]);
        let plain = in_order && gaps.iter().all(|gap| *gap == 0);
        prop_assert!(view.is_some() || !plain, "{:?} as {:?} needs no copy", from, to);
        if let Some(view) = view {
            for i in 0..from.iter().product() {
                let (a, b) = (address(&layout, &unravel(i, &from)), address(&view, &unravel(i, &to)));
                prop_assert_eq!(a, b, "{:?} as {:?}: element {}", &from, &to, i);
            }
        }
    }

    /// The number of elements of a shape is that of its normal form.
    #[test]
    fn products_of_dimensions(dims in shape(6)) {
        prop_assert_eq!(product(&constants(&dims)).as_usize(), Some(dims.iter().product::<usize>()));
    }
}

/// Interprets a model of i64 tensors.
fn outputs(ir: &Ir, inputs: &[Array]) -> Result<Array, String> {
    let source = Source::from_memory("model.xml", ir.xml(), ir.weights()).map_err(|problems| problems.to_string())?;
    let program = stages::program(&source, &Options::default()).map_err(|problems| problems.to_string())?;
    let tensor = |(dims, values): &Array| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::new(ElementType::I64, dims.clone(), bytes.into()).unwrap()
    };
    let inputs: Vec<Tensor> = inputs.iter().map(tensor).collect();
    let outputs = interpret(&program, &inputs).expect("a compiled model runs");
    Ok((outputs[0].dims.clone(), outputs[0].to_i64s().unwrap()))
}

fn counted(dims: &[usize], first: i64) -> Array {
    (dims.to_vec(), (0..dims.iter().product::<usize>() as i64).map(|i| first + i).collect())
}

/// Two shapes of which most fit together, with axes of one element on either side.
fn pair() -> impl Strategy<Value = (Vec<usize>, Vec<usize>)> {
    (shape(4), proptest::collection::vec(0..4u8, 4), 0..5usize, 0..8u8).prop_map(|(a, kinds, rank, odd)| {
        let mut b: Vec<usize> = a.iter().zip(&kinds).map(|(dim, kind)| if *kind == 0 { 1 } else { *dim }).collect();
        b.drain(..b.len().saturating_sub(rank));
        let a = a.iter().zip(&kinds).map(|(dim, kind)| if *kind == 1 { 1 } else { *dim }).collect();
        if odd == 0
            && let Some(last) = b.last_mut()
        {
            *last += 1;
        }
        (a, b)
    })
}

fn cut() -> impl Strategy<Value = (i64, i64, i64)> {
    (-9i64..9, -9i64..9, prop_oneof![-4i64..=-1, 1i64..=4])
}

proptest! {
    #![proptest_config(bounded(250))]

    /// Addition under numpy's broadcasting rule: shape, elements, and which shapes do not fit.
    #[test]
    fn broadcasting_is_numpys((a, b) in pair(), swap in any::<bool>()) {
        let (a, b) = if swap { (b, a) } else { (a, b) };
        let (x, y) = (counted(&a, 1), counted(&b, 1000));
        let mut ir = Ir::new();
        let inputs = [ir.parameter(&a), ir.parameter(&b)];
        ir.operation("Add", 1, "auto_broadcast=\"numpy\"", &inputs);
        match (model::add(&x, &y), outputs(&ir, &[x, y])) {
            (Some(want), got) => prop_assert_eq!(got, Ok(want)),
            (None, got) => prop_assert!(got.is_err(), "{:?} + {:?} gave {:?}", a, b, got),
        }
    }

    /// Slice with starts and stops anywhere and steps of both signs.
    #[test]
    fn slices_with_steps_of_both_signs(dims in shape(3), cuts in proptest::collection::vec(cut(), 3)) {
        let cuts = &cuts[..dims.len()];
        let column = |f: fn(&(i64, i64, i64)) -> i64| -> Vec<i64> { cuts.iter().map(f).collect() };
        let x = counted(&dims, 1);
        let mut ir = Ir::new();
        let inputs = [
            ir.parameter(&dims),
            ir.constant(&column(|cut| cut.0)),
            ir.constant(&column(|cut| cut.1)),
            ir.constant(&column(|cut| cut.2)),
        ];
        ir.operation("Slice", 8, "", &inputs);
        let want = model::slice(&x, cuts);
        prop_assert_eq!(outputs(&ir, &[x]), Ok(want));
    }

    /// Reshape behind a transposition, with a dimension to find.
    #[test]
    fn reshapes_read_in_order((from, to) in regrouped(), keys in proptest::collection::vec(0..9u8, 6), find in 0..8usize) {
        let mut order: Vec<usize> = (0..from.len()).collect();
        order.sort_by_key(|i| keys[*i]);
        let mut source = vec![0; from.len()];
        order.iter().zip(&from).for_each(|(at, dim)| source[*at] = *dim);
        let x = counted(&source, 1);
        let mut target: Vec<i64> = to.iter().map(|dim| *dim as i64).collect();
        if let Some(dim) = target.get_mut(find) {
            *dim = -1;
        }
        let mut ir = Ir::new();
        let parameter = ir.parameter(&source);
        let permutation: Vec<i64> = order.iter().map(|i| *i as i64).collect();
        let permutation = ir.constant(&permutation);
        let transposed = ir.operation("Transpose", 1, "", &[parameter, permutation]);
        let target = ir.constant(&target);
        ir.operation("Reshape", 1, "special_zero=\"false\"", &[transposed, target]);
        let want = (to, model::transpose(&x, &order).1);
        prop_assert_eq!(outputs(&ir, &[x]), Ok(want));
    }
}
