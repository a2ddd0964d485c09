//! Every instruction set against a definition in double precision, on random convolutions; hostile descriptors do nothing.
extern crate std;
use super::*;
use crate::contraction::tests::Random;
use crate::contraction::{Batch, RowAxis, Tile};
use crate::isa::Isa;
use crate::view::View;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::vec;

/// A random convolution over images in NHWC or NDHWC, the lengths of its operands, and slices, height and width of the
/// result.
struct Case {
    shape: Winograd,
    a_len: usize,
    out_len: usize,
    size: [usize; 3],
    groups: usize,
}

/// Stride, pixels of a tile and of the window along an axis.
const KINDS: [(usize, usize, usize); 20] = [
    (1, 3, 2),
    (1, 5, 2),
    (1, 2, 3),
    (1, 4, 3),
    (1, 2, 5),
    (1, 3, 4),
    (1, 3, 7),
    (1, 4, 7),
    (1, 4, 6),
    (1, 3, 8),
    (1, 4, 9),
    (1, 3, 11),
    (2, 3, 4),
    (2, 5, 4),
    (2, 2, 5),
    (2, 4, 5),
    (2, 2, 6),
    (2, 4, 6),
    (2, 3, 7),
    (2, 3, 8),
];
/// Those that no window of one line has.
const ONLY_SQUARE: [(usize, usize, usize); 5] = [(1, 3, 2), (1, 2, 3), (2, 3, 4), (2, 2, 5), (2, 2, 6)];

fn random(r: &mut Random) -> Case {
    let (depth, cols) = ([1, 3, 5, 16, 33, 64][r.below(6)], 1 + r.below(75));
    let (stride, tile, window) = KINDS[r.below(KINDS.len())];
    // A window of lines, or one line.
    let is_line = !ONLY_SQUARE.contains(&(stride, tile, window));
    // Or fewer pixels along one axis.
    let (fewer, shape) = (2 + r.below(window - 1), r.below(6));
    let height = match shape {
        0 | 1 if is_line => 1,
        _ if tile == 5 => 1,
        2 => fewer,
        _ => window,
    };
    let across = if shape == 3 && tile < 5 { fewer } else { window };
    let pad = [r.below(height), r.below(across)];
    let more = if stride == 2 { 12 } else { 17_usize.saturating_sub(2 * window).max(3) };
    // Pixels between taps, and all that a window covers.
    let dilated = stride == 1 && r.below(3) == 0;
    let gaps = [height, across].map(|taps| if dilated && taps > 1 { 1 + r.below(3) } else { 1 });
    let [tall, wide] = [(height - 1) * gaps[0] + 1, (across - 1) * gaps[1] + 1];
    let (h, w) = (tall + r.below(more), wide + r.below(more));
    // Less than the whole result: the rest of the input is not to be read.
    let mut count = |size: usize, pad: usize, taps: usize| ((size + 2 * pad - taps) / stride + 1 - r.below(2)).max(1);
    let (oh, ow) = (count(h, pad[0], tall), count(w, pad[1], wide));
    let images = 1 + r.below(3);
    let panel = [16, 32][r.below(2)];
    // Groups, in one or both batch axes, are next to each other in every pixel.
    let batches = [[1, 1], [1, 2], [2, 3], [4, 1]][r.below(4)];
    let groups = batches[0] * batches[1];
    let (width, all) = (depth * groups, cols * groups);
    let (slice, line, pixel) = ((h * w * width) as isize, (w * width) as isize, width as isize);
    // Slices, of which a window covers several; fewer of the result than would fit, or more padding than slices.
    let (taps, pad_slices, block) = (1 + r.below(4), r.below(4), 1 + r.below(4));
    let has_slices = window <= 5 && stride == 1 && height > 1 && r.below(2) > 0;
    let slices = has_slices.then_some(Slices { axis: 1, block });
    let (d, taps, pad_slices) = if slices.is_some() { (taps + r.below(4), taps, pad_slices) } else { (1, 1, 0) };
    let od = (d + 2 * pad_slices + 1 - taps).saturating_sub(r.below(2)).max(1);
    let bound = |row, tap, pad: usize, limit| match pad {
        0 => Bound::NONE,
        _ => {
            let (stride, dilation) = if tap == 1 { (1, 1) } else { (stride as isize, gaps[tap as usize - 2] as isize) };
            Bound { row, tap, stride, dilation, offset: -(pad as isize), limit }
        }
    };
    let row = |extent, a, out| RowAxis { extent, a, out, residual: out };
    let product = Contraction {
        rows: [
            row(images, slice * d as isize, od * oh * ow * all),
            row(od, slice, oh * ow * all),
            row(oh, if height == 1 { line } else { line * stride as isize }, ow * all),
            row(ow, pixel * stride as isize, all),
        ],
        taps: [
            Tap::ONE,
            Tap { extent: taps, a: slice },
            Tap { extent: height, a: line * gaps[0] as isize },
            Tap { extent: across, a: pixel * gaps[1] as isize },
        ],
        bounds: [bound(2, 2, pad[0], h), bound(3, 3, pad[1], w), bound(1, 1, pad_slices, d)],
        a_offset: -(pad_slices as isize) * slice - pad[0] as isize * line - pad[1] as isize * pixel,
        depth,
        cols,
        panel,
        ..Contraction::NEW
    };
    let (block, chunk) = (1 + r.below(20), panel * (1 + r.below(3)));
    let y = if height == 1 { Bound::NO_AXIS } else { 2 };
    let mut shape = Winograd { product, axes: [y, 3], slices, tile, block, chunk };
    let one = shape.weights_len();
    let batch = |extent, of: usize| Batch {
        extent,
        a: (of * depth) as isize,
        w: of * one,
        out: of * cols,
        residual: of * cols,
        bias: of * cols,
    };
    shape.product.batches = [batch(batches[0], batches[1]), batch(batches[1], 1)];
    let (a_len, out_len) = (images * d * h * w * width, images * od * oh * ow * all);
    Case { shape, a_len, out_len, size: [od, oh, ow], groups }
}

impl Case {
    /// Of a slice.
    fn taps(&self) -> usize {
        self.shape.product.taps[2].extent * self.shape.product.taps[3].extent
    }

    /// Value and sum of magnitudes of one output element, column `n` of all groups, before the epilogue.
    fn definition(&self, a: &[f32], w: &[f32], m: usize, n: usize) -> (f64, f64) {
        let (c, [od, oh, ow]) = (&self.shape.product, self.size);
        let (group, n) = (n / c.cols, n % c.cols);
        let (across, taps) = (c.taps[3].extent, self.taps());
        let w = &w[group * taps * self.shape.sum() * c.cols..];
        let (image, z, y, x) = (m / ow / oh / od, m / ow / oh % od, m / ow % oh, m % ow);
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for tap in 0..taps * c.taps[1].extent {
            let (kz, ky, kx) = (tap / taps, tap % taps / across, tap % across);
            let inside = |i: usize, b: &Bound| b.limit == 0 || (0..b.limit as isize).contains(&(i as isize + b.offset));
            let (stride, is_line) = (self.shape.stride(), c.taps[2].extent == 1);
            let [gap_y, gap_x] = [self.shape.gap(0), self.shape.gap(1)];
            // In pixels; a line moves along an axis of its own.
            let (at_y, at_x) = (if is_line { y } else { y * stride + ky * gap_y }, x * stride + kx * gap_x);
            if !inside(at_y, &c.bounds[0]) || !inside(at_x, &c.bounds[1]) || !inside(z + kz, &c.bounds[2]) {
                continue;
            }
            let at = c.a_offset
                + (group * c.depth) as isize
                + image as isize * c.rows[0].a
                + (z + kz) as isize * c.rows[1].a
                + y as isize * c.rows[2].a
                + x as isize * c.rows[3].a
                + ky as isize * c.taps[2].a
                + kx as isize * c.taps[3].a;
            for d in 0..c.depth {
                let product = f64::from(a[at as usize + d]) * f64::from(w[(tap * c.depth + d) * c.cols + n]);
                sum += product;
                magnitude += product.abs();
            }
        }
        (sum, magnitude)
    }
}

#[test]
fn random_convolutions_match_the_definition_on_every_isa() {
    let mut r = Random(0x0bad_5eed);
    for number in 0..200 {
        let case = random(&mut r);
        let (shape, c) = (&case.shape, &case.shape.product);
        let (a, w) = (r.floats(case.a_len), r.floats(case.taps() * shape.sum() * c.cols * case.groups));
        let all = c.cols * case.groups;
        let (bias, residual, old) = (r.floats(all), r.floats(case.out_len), r.floats(case.out_len));
        let mut packed = vec![0.0; shape.weights_len() * case.groups];
        for (group, part) in packed.chunks_exact_mut(shape.weights_len()).enumerate() {
            let of = group * case.taps() * shape.sum();
            pack_winograd(shape, part, |tap, d, n| w[(of + tap * c.depth + d) * c.cols + n]);
        }
        let mut scratch = vec![f32::NAN; shape.scratch_len()];
        let (a_extent, out_extent) = (Extent::contiguous(case.a_len), Extent::contiguous(case.out_len));
        assert!(shape.fits(a_extent, packed.len(), scratch.len(), out_extent), "{shape:?}");
        let (with_bias, with_residual, accumulate, clamped, closure) =
            (r.below(2) == 0, r.below(2) == 0, r.below(4) == 0, r.below(2) == 0, r.below(3) == 0);
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let mut out = old.clone();
            let seen: std::vec::Vec<AtomicUsize> = (0..case.out_len).map(|_| AtomicUsize::new(0)).collect();
            let double = |mut tile: Tile<'_>| {
                let (first, cols) = (tile.first_col, tile.cols());
                let group = tile.batch[0] * c.batches[1].extent + tile.batch[1];
                for (m, row) in tile.rows() {
                    assert_eq!(row.len(), cols);
                    for (n, x) in row.iter_mut().enumerate() {
                        seen[m * all + group * c.cols + first + n].fetch_add(1, Ordering::Relaxed);
                        *x = *x * 2.0 + 1.0;
                    }
                }
            };
            let epilogue = Epilogue {
                bias: with_bias.then_some(&bias[..]),
                residual: with_residual.then(|| residual[..].src()),
                accumulate,
                clamp: clamped.then_some((-2.0, 6.0)),
                then: if closure { Some(&double) } else { None },
            };
            shape.run(cx, a[..].src(), &packed, &mut scratch, Dst::from_slice(&mut out), epilogue);
            assert!(!closure || seen.iter().all(|n| n.load(Ordering::Relaxed) == 1));
            #[cfg(feature = "threads")]
            {
                let (threads, portions) = [(2, 1), (2, 2), (3, 2), (5, 7)][number % 4];
                let team = crate::team::Team::new(threads);
                let (mut divided, mut scratch) = (old.clone(), vec![f32::NAN; portions * shape.scratch_len()]);
                let to = Dst::from_slice(&mut divided);
                shape.run(cx.with_team(&team), a[..].src(), &packed, &mut scratch, to, epilogue);
                assert_eq!(divided, out, "{threads} threads, {portions} portions, {shape:?}");
            }
            for (at, out) in out.iter().enumerate() {
                let (m, n) = (at / all, at % all);
                let (mut want, magnitude) = case.definition(&a, &w, m, n);
                want += if with_bias { f64::from(bias[n]) } else { 0.0 };
                want += if with_residual { f64::from(residual[at]) } else { 0.0 };
                want += if accumulate { f64::from(old[at]) } else { 0.0 };
                want = if clamped { want.clamp(-2.0, 6.0) } else { want };
                want = if closure { want * 2.0 + 1.0 } else { want };
                let error = (f64::from(*out) - want).abs();
                // Border pixels have few products of their own, but share the errors of their tile.
                let scale = magnitude + (case.taps() * shape.sum()) as f64 + 4.0;
                assert!(error <= 2e-5 * scale, "case {number} {:?} {m} {n}: {out} not {want}\n{shape:?}", cx.isa());
            }
        }
    }
}

/// The figures of docs/accuracy.md.
#[test]
fn errors_are_as_documented() {
    let (depth, cols, size) = (256, 16, 8);
    for (stride, tile, window) in KINDS {
        let most = match (stride, tile, window) {
            (1, 2, 3) | (2, 2, _) | (2, 3, 4) => 2e-6,
            (stride, ..) => 2e-5 * stride as f64,
        };
        // Larger ones are lines in all models, and those of five pixels of a tile anywhere.
        let height = if window > 8 || tile == 5 { 1 } else { window };
        let width = (size - 1) * stride + window;
        let (line, pixel) = ((width * depth) as isize, depth as isize);
        let row = |a: isize, out| RowAxis { extent: size, a: a * stride as isize, out, residual: out };
        let product = Contraction {
            rows: [RowAxis::ONE, RowAxis::ONE, row(line, size * cols), row(pixel, cols)],
            taps: [Tap::ONE, Tap::ONE, Tap { extent: height, a: line }, Tap { extent: window, a: pixel }],
            depth,
            cols,
            panel: 16,
            ..Contraction::NEW
        };
        let y = if height == 1 { Bound::NO_AXIS } else { 2 };
        let shape = Winograd { product, axes: [y, 3], slices: None, tile, block: 16, chunk: 16 };
        let (a_len, out_len) = (width * width * depth, size * size * cols);
        let case = Case { shape, a_len, out_len, size: [1, size, size], groups: 1 };
        let mut r = Random(7);
        let (a, w) = (r.floats(a_len), r.floats(height * window * depth * cols));
        let mut packed = vec![0.0; shape.weights_len()];
        pack_winograd(&shape, &mut packed, |tap, d, n| w[(tap * depth + d) * cols + n]);
        let (mut scratch, mut out) = (vec![0.0; shape.scratch_len()], vec![0.0; out_len]);
        shape.run(Cx::detect(), a[..].src(), &packed, &mut scratch, Dst::from_slice(&mut out), Epilogue::NONE);
        let (mut error, mut largest) = (0.0f64, 0.0f64);
        for (at, out) in out.iter().enumerate() {
            let (want, _) = case.definition(&a, &w, at / cols, at % cols);
            (error, largest) = (error.max((f64::from(*out) - want).abs()), largest.max(want.abs()));
        }
        std::println!(
            "tile {tile}, window {height}x{window}, stride {stride}: {:.1e} of the largest result",
            error / largest
        );
        assert!(error > 0.0 && error <= most * largest, "F({tile}x{tile}): {error} of {largest}");
    }
}

#[test]
fn what_does_not_fit_does_nothing() {
    let mut r = Random(99);
    let mut case = random(&mut r);
    while case.shape.product.batches.iter().any(|batch| batch.extent == 1)
        || case.shape.product.bounds.iter().any(|bound| bound.limit == 0)
        || case.shape.is_line()
    {
        case = random(&mut r);
    }
    let (shape, a) = (case.shape, r.floats(case.a_len));
    let packed = vec![1.0; shape.weights_len() * case.groups];
    let mut scratch = vec![0.0; shape.scratch_len()];
    let with = |change: &dyn Fn(&mut Winograd)| {
        let mut changed = shape;
        change(&mut changed);
        changed
    };
    let wrong = [
        with(&|s| s.tile = 5),
        with(&|s| s.tile = usize::MAX),
        with(&|s| s.block = 0),
        with(&|s| s.block = usize::MAX),
        with(&|s| s.chunk += 1),
        with(&|s| s.chunk = 0),
        with(&|s| s.axes = [3, 2]),
        with(&|s| s.axes = [2, 200]),
        with(&|s| s.axes = [255, 0]),
        with(&|s| s.product.taps[2].extent = 9),
        with(&|s| s.product.taps[3].extent = 9),
        with(&|s| s.product.taps[2].extent = 1),
        with(&|s| s.axes[0] = Bound::NO_AXIS),
        with(&|s| s.product.taps[3].a *= 2),
        with(&|s| s.product.bounds[0].dilation += 1),
        with(&|s| s.product.taps[3].a += 1),
        with(&|s| s.product.taps[3].a = -s.product.taps[3].a),
        with(&|s| s.product.bounds[0].stride = 3 - s.product.bounds[0].stride),
        with(&|s| s.product.rows[2].a *= 3),
        with(&|s| s.product.rows[3].a *= 2),
        with(&|s| s.product.bounds[0].row = 3),
        with(&|s| s.product.bounds[2].stride = 2),
        with(&|s| s.product.bounds[2].row = 0),
        with(&|s| s.product.rows[2].extent += 100),
        with(&|s| s.slices = None),
        with(&|s| s.slices = Some(Slices { axis: 2, block: 1 })),
        with(&|s| s.slices = Some(Slices { axis: 0, block: 1 })),
        with(&|s| s.slices = Some(Slices { axis: 1, block: 0 })),
        with(&|s| s.slices = Some(Slices { axis: 1, block: usize::MAX })),
        with(&|s| s.slices = Some(Slices { axis: 200, block: 1 })),
        with(&|s| s.product.cols += 32),
        with(&|s| s.product.depth = usize::MAX / 2),
        with(&|s| s.product.batches[0].extent += 1),
        with(&|s| s.product.batches[0].extent = 0),
        with(&|s| s.product.batches[1].w += 1),
        with(&|s| s.product.batches[1].w = usize::MAX),
        with(&|s| s.product.batches[1].a = isize::MAX),
        with(&|s| s.product.batches[1].out = usize::MAX),
    ];
    for shape in wrong {
        let mut out = vec![7.0; case.out_len];
        let cx = Cx::detect();
        shape.run(cx, a[..].src(), &packed, &mut scratch, Dst::from_slice(&mut out), Epilogue::NONE);
        assert!(out.iter().all(|x| *x == 7.0), "{shape:?}");
    }
    let mut out = vec![7.0; case.out_len];
    let (cx, short) = (Cx::detect(), &mut []);
    shape.run(cx, a[..].src(), &packed, short, Dst::from_slice(&mut out), Epilogue::NONE);
    shape.run(cx, a[..].src(), &packed[1..], &mut scratch, Dst::from_slice(&mut out), Epilogue::NONE);
    assert!(out.iter().all(|x| *x == 7.0));
}
