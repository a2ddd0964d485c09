//! Tests of lines against single rows.
extern crate std;
use super::super::tests::{Random, one_row};
use super::super::{Batch, Bound, Epilogue, RowAxis, Tap, Tile, packed_len};
use super::*;
use crate::view::{View, ViewMut};
use std::vec;

/// Groups of a convolution over an image of h x w pixels.
fn convolution(r: &mut Random, image: (usize, usize, usize)) -> Contraction {
    let (channels, size) =
        (([1, 3, 4, 8, 11, 16, 24, 40][r.below(8)], 1 + r.below(16)), [1 + r.below(4), 2 + r.below(7)]);
    of_size(r, image, channels, size)
}

/// The same of these channels and columns, and a window of this size.
fn of_size(
    r: &mut Random,
    (groups, h, w): (usize, usize, usize),
    (depth, cols): (usize, usize),
    size: [usize; 2],
) -> Contraction {
    let (stride, pad) = (1 + r.below(2), [r.below(3), r.below(4)]);
    // Of a dilated window, outputs are as many taps apart, or a pixel.
    let dilation = [1, [1, 1, 2, 3][r.below(4)]];
    let strides = [stride, if dilation[1] > 1 && r.below(2) == 0 { 1 } else { stride * dilation[1] }];
    let reach = |i: usize| (size[i] - 1) * dilation[i] + 1;
    let out = |i: usize, n: usize| (n + 2 * pad[i]).saturating_sub(reach(i)) / strides[i] + 1;
    let (pixel, width) = (groups * depth, groups * cols);
    let (line, columns) = (w * pixel, out(1, w));
    let bound = |i: usize, limit: usize| {
        let (row, tap) = (i as u8, i as u8 + 2);
        let (stride, dilation) = (strides[i] as isize, dilation[i] as isize);
        Bound { row, tap, stride, dilation, offset: -(pad[i] as isize), limit }
    };
    let row = |extent, a: usize, out| RowAxis { extent, a: a as isize, out, residual: out };
    let step = dilation[1] * pixel;
    let group = Batch { w: packed_len(cols, size[0] * size[1] * depth, 32), extent: groups, ..Batch::ONE };
    Contraction {
        batches: [Batch::ONE, Batch { a: depth as isize, out: cols, residual: cols, bias: cols, ..group }],
        rows: [
            row(out(0, h), strides[0] * line, columns * width),
            row(columns, strides[1] * pixel, width),
            RowAxis::ONE,
            RowAxis::ONE,
        ],
        taps: [
            Tap::ONE,
            Tap::ONE,
            Tap { extent: size[0], a: line as isize },
            Tap { extent: size[1], a: step as isize },
        ],
        bounds: [bound(0, h), bound(1, w), Bound::NONE],
        a_offset: -((pad[0] * line + pad[1] * pixel) as isize),
        depth,
        cols,
        ..Contraction::NEW
    }
}

/// The convolution in groups of `width`, merged to groups of sixteen, is that in single rows, whose sums have another order.
#[test]
fn groups_have_the_numbers_of_single_rows() {
    let (mut r, mut folded) = (Random(0x6e0b_0075), 0);
    for case in 0..40 {
        let (groups, h, w, width) = (1 + r.below(3), 1 + r.below(7), 3 + r.below(40), [2, 4, 8][case % 3]);
        let rows = 1 + r.below(3);
        let c = of_size(&mut r, (groups, h, w), (LINE, LINE), [rows, 3]);
        let (m, n) = (c.m(), groups * LINE);
        let (a, mut weights) = (r.floats(h * w * n), r.floats(groups * c.batches[1].w));
        for (i, weight) in weights.iter_mut().enumerate() {
            *weight *= f32::from(u8::from(i / LINE % LINE / width == i % LINE / width));
        }
        let bias = r.floats(n);
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            folded += usize::from(Narrow::of(&c, &weights, cx.isa()).is_some_and(|narrow| narrow.groups.is_some()));
            let (mut got, mut want) = (vec![0.0; m * n], vec![0.0; m * n]);
            let epilogue = Epilogue { bias: (case % 2 == 0).then_some(&bias[..]), ..Epilogue::NONE };
            c.run(cx, a[..].src(), &weights, got[..].dst(), epilogue);
            for (i, row) in want.chunks_exact_mut(n).enumerate() {
                let (y, x) = (i / c.rows[1].extent, i % c.rows[1].extent);
                one_row(&c, y, x).run(cx, a[..].src(), &weights, row.dst(), epilogue);
            }
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() < 1e-5, "{got} {want} {c:?} {:?}", cx.isa());
            }
            #[cfg(feature = "threads")]
            {
                let (team, mut again) = (crate::team::Team::new(2), vec![0.0; m * n]);
                c.run(cx.with_team(&team), a[..].src(), &weights, again[..].dst(), epilogue);
                assert_eq!(again, got);
            }
        }
    }
    assert!(folded > 20 || Cx::with_isa(Isa::Avx2).is_none(), "{folded}");
}

/// Eight planes of 50 x 50 pixels, in windows of 3 x 3: no line reads what the one before has read of all planes.
#[test]
fn lines_of_many_planes_are_not_copied() {
    let row = |a, out| RowAxis { extent: 48, a, out, residual: 0 };
    let c = Contraction {
        rows: [row(50, 384), row(1, 8), RowAxis::ONE, RowAxis::ONE],
        taps: [Tap::ONE, Tap::ONE, Tap { extent: 8, a: 2500 }, Tap { extent: 3, a: 50 }],
        depth: 3,
        cols: 8,
        ..Contraction::NEW
    };
    let lines = Lines::of(&c, MOST_TAPS).expect("taps that are so many outputs apart");
    assert_eq!((lines.rows(&c), lines.new_rows(&c)), (351, 1));
    assert!(Isa::ALL.into_iter().all(|isa| Narrow::of(&c, &[], isa).is_none()));
}

#[test]
fn lines_have_the_bits_of_single_rows_on_every_isa_and_team() {
    // Kernels of planes of every pixel, of every second one, of taps with gaps, and of some channels at a time.
    let (mut r, mut narrow, mut planar) = (Random(0x0a44_0775), 0, [[0; 4]; 2]);
    for case in 0..320 {
        let (groups, h, w) = (1 + r.below(3), 1 + r.below(7), 3 + r.below(if case < 60 { 40 } else { 240 }));
        let c = match case {
            // Long lines of few columns are for kernels of planes.
            60.. => {
                let size = [1 + r.below(4), 2 + r.below(7)];
                let cols = 1 + r.below(5);
                let depth = if case % 3 == 0 { 40 + r.below(30) } else { 16 };
                of_size(&mut r, (groups, h, w), (depth, cols), size)
            }
            _ => convolution(&mut r, (groups, h, w)),
        };
        let (m, n) = (c.m(), groups * c.cols);
        let (mut a, mut weights) = (r.floats(h * w * groups * c.depth), r.floats(groups * c.batches[1].w));
        let planes = |narrow: &Narrow| matches!(narrow.whole.kernel, Kernel::Planes(_));
        let vectors = [Isa::Avx2, Isa::Avx512];
        if c.cols <= 12 || vectors.iter().any(|isa| Narrow::of(&c, &weights, *isa).as_ref().is_some_and(planes)) {
            // Kernels of planes, of pairs and of fours, sum in another order: these sums are exact.
            a.iter_mut().chain(&mut weights).for_each(|x| *x = (*x * 8.0).round() / 8.0);
        }
        for (isa, planar) in vectors.into_iter().zip(&mut planar) {
            let Some(narrow) = Narrow::of(&c, &weights, isa).filter(planes) else { continue };
            planar[if narrow.lines.gap > 1 { 2 } else { narrow.lines.stride - 1 }] += 1;
            planar[3] += usize::from(narrow.held(&c, narrow.whole.outputs).0 < c.depth);
        }
        let (bias, residual) = (r.floats(n), r.floats(m * n));
        let closure = |mut tile: Tile<'_>| {
            let first = tile.first_col;
            for (i, row) in tile.rows() {
                row.iter_mut().enumerate().for_each(|(j, x)| *x = *x * 2.0 + (i + first + j) as f32);
            }
        };
        let shown = case % 5 < 2;
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            narrow += usize::from(Narrow::of(&c, &weights, cx.isa()).is_some());
            let epilogue = |at: usize| Epilogue {
                bias: (case % 3 != 0).then_some(&bias[..]),
                residual: (case % 4 == 0).then(|| residual[at * n..].src()),
                clamp: (case % 2 == 0).then_some((-0.5, 0.5)),
                ..Epilogue::NONE
            };
            let (mut got, mut want) = (vec![0.0; m * n], vec![0.0; m * n]);
            let whole = Epilogue { then: if shown { Some(&closure) } else { None }, ..epilogue(0) };
            c.run(cx, a[..].src(), &weights, got[..].dst(), whole);
            for (i, row) in want.chunks_exact_mut(n).enumerate() {
                let (y, x) = (i / c.rows[1].extent, i % c.rows[1].extent);
                one_row(&c, y, x).run(cx, a[..].src(), &weights, row.dst(), epilogue(i));
                if shown {
                    row.iter_mut().enumerate().for_each(|(j, x)| *x = *x * 2.0 + (i + j % c.cols) as f32);
                }
            }
            assert_eq!(got, want, "{c:?} {:?}", cx.isa());
            if whole.residual.is_some() {
                // The same residual, which the result replaces.
                got.copy_from_slice(&residual);
                let update = Epilogue { residual: None, accumulate: true, ..whole };
                c.run(cx, a[..].src(), &weights, got[..].dst(), update);
                assert_eq!(got, want, "{c:?} {:?} in place", cx.isa());
            }
            for iteration in [0, 1] {
                let mut again = vec![0.0; m * n];
                c.run(cx.in_iteration(iteration), a[..].src(), &weights, again[..].dst(), whole);
                assert_eq!(again, want, "{:?}", cx.isa());
                #[cfg(feature = "threads")]
                {
                    let team = crate::team::Team::new(2 + case % 3);
                    let cx = cx.in_iteration(iteration).with_team(&team);
                    c.run(cx, a[..].src(), &weights, again[..].dst(), whole);
                    assert_eq!(again, want, "{:?}", cx.isa());
                }
            }
        }
    }
    let enough = narrow > 20 && planar.iter().flatten().all(|cases| *cases > 6);
    assert!(enough || ![Isa::Avx2, Isa::Avx512].contains(&Isa::detect()), "{narrow} {planar:?}");
}

/// Lines so long that threads compute pieces of them.
#[cfg(feature = "threads")]
#[test]
fn pieces_of_lines_have_the_bits_of_lines() {
    let (mut r, mut pieces) = (Random(0x91ec), 0);
    let sizes = [(1, 700, 10), (1, 701, 4), (3, 340, 12), (1, 130, 16), (3, 512, 3), (1, 1100, 7)];
    for (case, (h, w, cols)) in sizes.into_iter().cycle().take(3 * sizes.len()).enumerate() {
        let c = of_size(&mut r, (1, h, w), (64, cols), [1, 15]);
        let (m, n) = (c.m(), cols);
        let (a, weights) = (r.floats(h * w * 64), r.floats(c.batches[1].w));
        let residual = r.floats(m * n);
        let closure = |mut tile: Tile<'_>| {
            let first = tile.first_col;
            for (i, row) in tile.rows() {
                row.iter_mut().enumerate().for_each(|(j, x)| *x = *x * 2.0 + (i + first + j) as f32);
            }
        };
        let epilogue = Epilogue { then: Some(&closure), accumulate: case % 2 == 0, ..Epilogue::NONE };
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let mut want = residual.clone();
            c.run(cx, a[..].src(), &weights, want[..].dst(), epilogue);
            for threads in [2, 3, 4, 17] {
                let narrow = Narrow::of(&c, &weights, cx.isa());
                pieces += usize::from(narrow.is_some_and(|narrow| narrow.unit(&c, threads) < c.rows[1].extent));
                let team = crate::team::Team::new(threads);
                let (cx, mut got) = (cx.in_iteration(threads % 2).with_team(&team), residual.clone());
                c.run(cx, a[..].src(), &weights, got[..].dst(), epilogue);
                assert_eq!(got, want, "{threads} threads {:?} {c:?}", cx.isa());
            }
        }
    }
    assert!(pieces > 6 || Isa::detect() != Isa::Avx512, "{pieces}");
}
