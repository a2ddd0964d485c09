//! Attention against its definition, on every instruction set and number of threads.
extern crate std;
use super::*;
use crate::contraction::Batch;
use crate::isa::Isa;
use std::vec;
use std::vec::Vec;

struct Case {
    heads: usize,
    rows: usize,
    keys: usize,
    depth: usize,
    cols: usize,
    height: usize,
    slots: usize,
    seen: usize,
}

impl Case {
    /// Queries, keys and values `[row, head, element]`, a mask `[row, key]`, the result `[row, head, element]`.
    fn shape(&self) -> Attention {
        let Case { heads, rows, keys, depth, cols, height, slots, seen } = *self;
        let mut scores = Contraction { depth, cols: keys, ..Contraction::NEW };
        scores.batches[1] = Batch { extent: heads, a: depth as isize, ..Batch::ONE };
        scores.rows[3] = RowAxis { extent: rows, a: (heads * depth) as isize, residual: keys, ..RowAxis::ONE };
        let mut sums = Contraction { depth: keys, cols, ..Contraction::NEW };
        sums.batches[1] = Batch { extent: heads, out: cols, ..Batch::ONE };
        sums.rows[3] = RowAxis { extent: rows, out: heads * cols, ..RowAxis::ONE };
        let keys = Matrix { offset: 0, batches: [0, depth], k: 1, n: heads * depth };
        let values = Matrix { offset: 0, batches: [0, cols], k: heads * cols, n: 1 };
        Attention { scores, keys, scale: 0.125, sums, values, seen, height, slots }
    }

    fn expected(&self, q: &[f32], k: &[f32], v: &[f32], mask: &[f32]) -> Vec<f32> {
        let Case { heads, rows, keys, depth, cols, seen, .. } = *self;
        let mut out = vec![0.0; rows * heads * cols];
        for (row, head) in (0..rows * heads).map(|i| (i / heads, i % heads)) {
            let score = |key: usize| {
                let products = (0..depth).map(|e| {
                    f64::from(q[(row * heads + head) * depth + e]) * f64::from(k[(key * heads + head) * depth + e])
                });
                products.sum::<f64>() * 0.125 + f64::from(mask[row * keys + key])
            };
            let keys = keys.min(seen.saturating_add(row));
            let scores: Vec<f64> = (0..keys).map(score).collect();
            let most = scores.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
            let powers: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for c in 0..cols {
                let value = |key: usize| powers[key] * f64::from(v[(key * heads + head) * cols + c]);
                out[(row * heads + head) * cols + c] = ((0..keys).map(value).sum::<f64>() / sum) as f32;
            }
        }
        out
    }
}

fn numbers(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn run(shape: &Attention, cx: Cx<'_>, [q, k, v, mask]: [&[f32]; 4], len: usize) -> Vec<f32> {
    let (mut scratch, mut out) = (vec![f32::NAN; shape.scratch_len()], vec![7.0; len]);
    let scored = Epilogue { residual: Some(Src::from_slice(mask)), ..Epilogue::NONE };
    let [q, k, v] = [q, k, v].map(Src::from_slice);
    shape.run(cx, q, k, v, &mut scratch, Dst::from_slice(&mut out), scored, Epilogue::NONE);
    out
}

#[test]
fn results_are_those_of_the_definition() {
    let cases = [
        (3, 197, 197, 64, 64, 66, 3),
        (2, 49, 49, 32, 32, 49, 1),
        (1, 5, 77, 80, 80, 5, 2),
        (4, 1, 33, 7, 5, 1, 4),
        (1, 30, 1, 3, 40, 7, 2),
        (2, 70, 260, 17, 33, 24, 8),
        (1, 21, 33, 8, 32, 9, 2),
        (1, 21, 33, 8, 16, 21, 1),
        // Fewer rows than at once, or a few more.
        (2, 5, 9, 8, 8, 64, 8),
        (2, 65, 9, 8, 8, 64, 8),
    ];
    let seen = [Attention::ALL, 1, 40];
    for ((heads, rows, keys, depth, cols, height, slots), seen) in
        cases.into_iter().flat_map(|case| seen.map(|seen| (case, seen)))
    {
        let case = Case { heads, rows, keys, depth, cols, height, slots, seen };
        let (q, k) = (numbers(rows * heads * depth, 1), numbers(keys * heads * depth, 2));
        let (v, mut mask) = (numbers(keys * heads * cols, 3), numbers(rows * keys, 4));
        mask.iter_mut().for_each(|x| *x *= 30.0);
        if rows > 3 && keys > 3 {
            mask[keys..2 * keys].fill(f32::NEG_INFINITY);
            mask[2 * keys..3 * keys - 1].fill(f32::NEG_INFINITY);
        }
        let (shape, want) = (case.shape(), case.expected(&q, &k, &v, &mask));
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let got = run(&shape, cx, [&q, &k, &v, &mask], want.len());
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                let near = (got - want).abs() < 2e-5 || got.is_nan() && want.is_nan();
                assert!(near, "{:?} {rows} x {keys} x {cols}, {seen} seen: {got} not {want} at {i}", cx.isa());
            }
            #[cfg(feature = "threads")]
            for threads in [2, 3, 7] {
                let team = crate::team::Team::new(threads);
                let again = run(&shape, cx.with_team(&team), [&q, &k, &v, &mask], want.len());
                let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&got), bits(&again), "{threads} threads");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_not_computed() {
    let case = Case { heads: 2, rows: 6, keys: 9, depth: 4, cols: 8, height: 4, slots: 2, seen: Attention::ALL };
    let shape = case.shape();
    let [q, k, v] = [6 * 8, 9 * 8, 9 * 16].map(Extent::contiguous);
    let (scratch, out) = (shape.scratch_len(), Extent::contiguous(6 * 16));
    assert!(shape.fits(q, k, v, scratch, out));
    let less = |extent: Extent| Extent::contiguous(extent.row - 1);
    assert!(!shape.fits(less(q), k, v, scratch, out) && !shape.fits(q, less(k), v, scratch, out));
    assert!(!shape.fits(q, k, less(v), scratch, out) && !shape.fits(q, k, v, scratch - 1, out));
    assert!(!shape.fits(q, k, v, scratch, less(out)));
    assert!(!Attention { height: 0, ..shape }.fits(q, k, v, scratch, out));
    assert!(!Attention { seen: 0, ..shape }.fits(q, k, v, scratch, out));
    let mut other = shape;
    other.sums.rows[3].extent = 5;
    assert!(!other.fits(q, k, v, scratch, out));
}

/// Sizes that are known when the model runs may be 0.
#[test]
fn nothing_weighs_nothing() {
    let case = |heads, rows, keys| Case { heads, rows, keys, depth: 4, cols: 8, height: 4, slots: 2, seen: 1 };
    let full = case(2, 6, 9).shape();
    for (heads, rows, keys) in [(2, 6, 0), (2, 0, 9), (0, 6, 9), (0, 0, 0), (2, 0, 0)] {
        let shape = case(heads, rows, keys).shape();
        let (mut scratch, mut out) = (vec![f32::NAN; full.scratch_len()], vec![7.0; 2 * 6 * 8]);
        let [q, k, v] = [6 * 8, 9 * 8, 9 * 16].map(|len| vec![1.0; len]);
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let [q, k, v] = [&q, &k, &v].map(|x| Src::from_slice(x));
            let add = Epilogue { bias: Some(&[3.0; 8]), ..Epilogue::NONE };
            shape.run(cx, q, k, v, &mut scratch, Dst::from_slice(&mut out), Epilogue::NONE, add);
            let (written, rest) = out.split_at(heads * rows * 8);
            assert!(written.iter().all(|x| *x == 3.0) && rest.iter().all(|x| *x == 7.0), "{heads} x {rows} x {keys}");
        }
    }
}
