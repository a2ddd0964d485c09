//! Compact weights against the contraction with the numbers that they stand for; hostile descriptors do nothing.
extern crate std;
use super::*;
use crate::cast::{f16_bits_to_f32, f32_to_f16_bits};
use crate::contraction::Tile;
use crate::contraction::tests::Random;
use crate::contraction::{Bound, RowAxis, Tap, packed_len};
use crate::isa::Isa;
use crate::view::{View, ViewMut};
use std::vec;
use std::vec::Vec;

/// A descriptor with random weights, compact and as floats.
struct Case {
    compact: Compact,
    bytes: Vec<u8>,
    floats: Vec<f32>,
}

impl Case {
    fn new(r: &mut Random, product: Contraction, form: Form, group: usize) -> Self {
        let c = &product;
        let compact = Compact { product, form, group };
        let (k, cols) = (c.k(), c.cols);
        let groups = k.div_ceil(group);
        let scales: Vec<f32> = (0..groups * cols).map(|_| r.float() / 64.0).collect();
        let zeros: Vec<f32> = (0..groups * cols).map(|_| r.below(20) as f32 - 4.0).collect();
        let codes: Vec<u16> = (0..k * cols)
            .map(|_| match form {
                Form::Halves => f32_to_f16_bits(r.float()),
                Form::Bytes => r.below(256) as u16,
                Form::Nibbles => r.below(16) as u16,
            })
            .collect();
        let mut bytes = vec![0; compact.weights_len()];
        let at = |g: usize, n: usize| g * cols + n;
        pack_compact(
            &compact,
            &mut bytes,
            |g, n| (scales[at(g, n)], zeros[at(g, n)]),
            |row, first, line| {
                line.copy_from_slice(&codes[row * cols + first..][..line.len()]);
            },
        );
        let mut floats = vec![0.0; packed_len(cols, k, c.panel)];
        crate::contraction::pack(cols, k, c.panel, &mut floats, |row, n| match form {
            Form::Halves => f16_bits_to_f32(codes[row * cols + n]),
            _ => (f32::from(codes[row * cols + n]) - zeros[at(row / group, n)]) * scales[at(row / group, n)],
        });
        Case { compact, bytes, floats }
    }
}

/// Rows of a matrix, or pixels of a convolution with padding.
fn product(r: &mut Random, m: usize, depth: usize, cols: usize) -> (Contraction, usize) {
    let panel = [16, 32][r.below(2)];
    let c = Contraction { depth, cols, panel, ..Contraction::NEW };
    if r.below(3) > 0 {
        let row = RowAxis { extent: m, a: depth as isize, out: cols + 1, residual: cols };
        return (Contraction { rows: [row, RowAxis::ONE, RowAxis::ONE, RowAxis::ONE], ..c }, m * depth);
    }
    let row = RowAxis { extent: m, a: depth as isize, out: cols + 1, residual: cols };
    let tap = Tap { extent: 3, a: depth as isize };
    let bound = Bound { row: 0, tap: 3, stride: 1, dilation: 1, offset: -1, limit: m };
    let c = Contraction {
        rows: [row, RowAxis::ONE, RowAxis::ONE, RowAxis::ONE],
        taps: [Tap::ONE, Tap::ONE, Tap::ONE, tap],
        bounds: [bound, Bound::NONE, Bound::NONE],
        a_offset: -(depth as isize),
        ..c
    };
    (c, m * depth)
}

#[test]
fn sums_are_those_of_the_numbers_on_every_isa_and_team() {
    let mut r = Random(0x00c0_4ac7);
    for case in 0..90 {
        let form = [Form::Halves, Form::Bytes, Form::Nibbles][case % 3];
        let (m, cols) = (1 + r.below(if case % 7 == 0 { 250 } else { 30 }), 1 + r.below(150));
        let groups = [1, 1, 2, 5][r.below(4)];
        let depth = if groups == 1 { 1 + r.below(70) } else { 4 * groups * (1 + r.below(6)) };
        let (c, a_len) = product(&mut r, m, depth, cols);
        let group = if groups == 1 || form == Form::Halves { c.k() } else { depth / groups };
        let case = Case::new(&mut r, c, form, group);
        let (a, bias, residual) = (r.floats(a_len), r.floats(cols), r.floats(m * cols));
        let then = |mut tile: Tile<'_>| {
            let first = tile.first_col;
            for (row, x) in tile.rows() {
                x.iter_mut().enumerate().for_each(|(j, x)| *x += (row * 1000 + first + j) as f32 / 512.0);
            }
        };
        let epilogue = Epilogue {
            bias: (r.below(2) == 0).then_some(&bias[..]),
            residual: (r.below(2) == 0).then(|| residual[..].src()),
            accumulate: r.below(3) == 0,
            clamp: (r.below(2) == 0).then_some((-3.0, 40.0)),
            then: if r.below(2) == 0 { Some(&then) } else { None },
        };
        let out_len = m * (cols + 1);
        let mut want = vec![0.25; out_len];
        let scalar = Cx::with_isa(Isa::Scalar).expect("every machine has it");
        c.run(scalar, a[..].src(), &case.floats, want[..].dst(), epilogue);
        let run = |cx: Cx<'_>| {
            let (mut y, mut scratch) = (vec![0.25; out_len], vec![f32::NAN; case.compact.scratch_len()]);
            case.compact.run(cx, a[..].src(), &case.bytes, &mut scratch, y[..].dst(), epilogue);
            y
        };
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let got = run(cx);
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() <= 2e-4 * (1.0 + want.abs()), "{got} {want} {form:?} {c:?} {:?}", cx.isa());
            }
            assert_eq!(run(cx.in_iteration(1)), got);
            #[cfg(feature = "threads")]
            for threads in [2, 3] {
                assert_eq!(run(cx.with_team(&crate::team::Team::new(threads))), got, "{threads} {:?}", cx.isa());
            }
        }
    }
}

#[test]
fn batches_share_their_weights() {
    let mut r = Random(0x00c0_4ac8);
    for m in [2, 7] {
        let (k, cols) = (24, 40);
        let row = RowAxis { extent: m, a: k as isize, out: cols, residual: 0 };
        let batch = crate::contraction::Batch {
            extent: 3,
            a: (m * k) as isize,
            out: m * cols,
            ..crate::contraction::Batch::ONE
        };
        let batches = [batch, crate::contraction::Batch::ONE];
        let rows = [row, RowAxis::ONE, RowAxis::ONE, RowAxis::ONE];
        let c = Contraction { depth: k, cols, rows, batches, panel: 32, ..Contraction::NEW };
        let case = Case::new(&mut r, c, Form::Bytes, 8);
        let a = r.floats(3 * m * k);
        let (mut got, mut want) = (vec![0.0; 3 * m * cols], vec![0.0; 3 * m * cols]);
        let mut scratch = vec![0.0; case.compact.scratch_len()];
        case.compact.run(Cx::detect(), a[..].src(), &case.bytes, &mut scratch, got[..].dst(), Epilogue::NONE);
        c.run(Cx::detect(), a[..].src(), &case.floats, want[..].dst(), Epilogue::NONE);
        assert!(got.iter().zip(&want).all(|(got, want)| (got - want).abs() < 1e-4 && *want != 0.0));
    }
}

#[test]
fn hostile_descriptors_write_nothing() {
    let mut r = Random(0x00c0_4ac9);
    let row = RowAxis { extent: 6, a: 8, out: 40, residual: 0 };
    let c = Contraction {
        depth: 8,
        cols: 40,
        rows: [row, RowAxis::ONE, RowAxis::ONE, RowAxis::ONE],
        panel: 32,
        ..Contraction::NEW
    };
    let good = Case::new(&mut r, c, Form::Nibbles, 4);
    let a = r.floats(48);
    let with = |product: Contraction| Compact { product, ..good.compact };
    let own = crate::contraction::Batch { extent: 2, w: 4, ..crate::contraction::Batch::ONE };
    let bad = [
        Compact { group: 0, ..good.compact },
        Compact { group: 3, ..good.compact },
        Compact { group: 16, ..good.compact },
        Compact { form: Form::Bytes, ..good.compact },
        Compact { group: 0, ..with(Contraction { depth: 0, ..c }) },
        with(Contraction { depth: 0, ..c }),
        with(Contraction { panel: 0, ..c }),
        with(Contraction { panel: 8, ..c }),
        with(Contraction { depth: usize::MAX, ..c }),
        with(Contraction { cols: usize::MAX, ..c }),
        with(Contraction { out_offset: 1, ..c }),
        with(Contraction { a_offset: 1, ..c }),
        with(Contraction { batches: [own, crate::contraction::Batch::ONE], ..c }),
    ];
    let run = |compact: &Compact, w: &[u8], scratch: usize| {
        let (mut y, mut scratch) = (vec![7.0; 240], vec![0.0; scratch]);
        compact.run(Cx::detect(), a[..].src(), w, &mut scratch, y[..].dst(), Epilogue::NONE);
        y.iter().any(|y| *y != 7.0)
    };
    let (scratch, bytes) = (good.compact.scratch_len(), good.bytes.as_slice());
    assert!(run(&good.compact, bytes, scratch));
    assert!(bad.iter().all(|compact| !run(compact, bytes, 4096)));
    assert!(!run(&good.compact, &bytes[1..], scratch) && !run(&good.compact, bytes, scratch - 1));
}
