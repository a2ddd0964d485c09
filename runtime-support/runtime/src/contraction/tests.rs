//! Every instruction set against a definition in double precision, on random descriptors; hostile descriptors do nothing.
extern crate std;
use super::*;
use crate::isa::Isa;
use crate::view::View;
use std::vec;
use std::vec::Vec;

/// A small deterministic generator.
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    pub fn float(&mut self) -> f32 {
        (self.below(2001) as f32 - 1000.0) / 512.0
    }
    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }
}

/// Row (y, x) of a convolution alone, whose bounds are those of its first two row axes.
pub(crate) fn one_row(c: &Contraction, y: usize, x: usize) -> Contraction {
    let mut bounds = c.bounds;
    for (bound, index) in bounds.iter_mut().zip([y, x]) {
        (bound.offset, bound.row) = (bound.offset + bound.stride * index as isize, Bound::NO_AXIS);
    }
    let a_offset = c.a_offset + y as isize * c.rows[0].a + x as isize * c.rows[1].a;
    Contraction { rows: [RowAxis::ONE; 4], bounds, a_offset, ..*c }
}

/// Value and sum of magnitudes of one output element before the epilogue.
fn definition(c: &Contraction, a: &[f32], w: &[f32], [b0, b1]: [usize; 2], m: usize, n: usize) -> (f64, f64) {
    let (mut row, mut rest) = ([0; 4], m);
    for axis in [3, 2, 1, 0] {
        row[axis] = rest % c.rows[axis].extent;
        rest /= c.rows[axis].extent;
    }
    let (mut sum, mut magnitude) = (0.0, 0.0);
    let taps: usize = c.taps.iter().map(|t| t.extent).product();
    for t in 0..taps {
        let (mut tap, mut rest) = ([0; 4], t);
        for axis in [3, 2, 1, 0] {
            tap[axis] = rest % c.taps[axis].extent;
            rest /= c.taps[axis].extent;
        }
        let inside = c.bounds.iter().filter(|b| b.limit > 0).all(|b| {
            let r = if b.row == Bound::NO_AXIS { 0 } else { row[b.row as usize] as isize };
            let t = if b.tap == Bound::NO_AXIS { 0 } else { tap[b.tap as usize] as isize };
            (0..b.limit as isize).contains(&(b.offset + r * b.stride + t * b.dilation))
        });
        if !inside {
            continue;
        }
        let mut at = c.a_offset + b0 as isize * c.batches[0].a + b1 as isize * c.batches[1].a;
        for axis in 0..4 {
            at += row[axis] as isize * c.rows[axis].a + tap[axis] as isize * c.taps[axis].a;
        }
        for d in 0..c.depth {
            let k = t * c.depth + d;
            let product = f64::from(a[at as usize + d]) * f64::from(w[k * c.cols + n]);
            sum += product;
            magnitude += product.abs();
        }
    }
    (sum, magnitude)
}

/// A random two-dimensional convolution with groups over a padded, strided, dilated NHWC input.
pub(crate) fn random_convolution(r: &mut Random) -> (Contraction, usize, usize) {
    let (groups, depth, cols) = (1 + r.below(3), [1, 3, 5, 16, 33, 300][r.below(6)], 1 + r.below(75));
    let (kh, kw, sh, sw, dh, dw) =
        (1 + r.below(3), 1 + r.below(4), 1 + r.below(2), 1 + r.below(3), 1 + r.below(2), 1 + r.below(2));
    let (ph, pw) = (r.below(3), r.below(3));
    let (h, w) = ((kh - 1) * dh + 1 + r.below(6), (kw - 1) * dw + 1 + r.below(20));
    let (oh, ow) = ((h + 2 * ph - (kh - 1) * dh - 1) / sh + 1, (w + 2 * pw - (kw - 1) * dw - 1) / sw + 1);
    let images = 1 + r.below(2);
    let channels = groups * depth;
    let line = (w * channels) as isize;
    let pixel = channels as isize;
    let out = groups * cols;
    let panel = [4, 8, 16, 32, 48][r.below(5)];
    let packed = packed_len(cols, kh * kw * depth, panel);
    let c = Contraction {
        batches: [
            Batch::ONE,
            Batch { extent: groups, a: depth as isize, w: packed, out: cols, residual: cols, bias: cols },
        ],
        rows: [
            RowAxis { extent: images, a: line * h as isize, out: oh * ow * out, residual: oh * ow * out },
            RowAxis { extent: oh, a: sh as isize * line, out: ow * out, residual: ow * out },
            RowAxis { extent: ow, a: sw as isize * pixel, out, residual: out },
            RowAxis::ONE,
        ],
        taps: [
            Tap::ONE,
            Tap::ONE,
            Tap { extent: kh, a: dh as isize * line },
            Tap { extent: kw, a: dw as isize * pixel },
        ],
        bounds: [
            Bound { row: 1, tap: 2, stride: sh as isize, dilation: dh as isize, offset: -(ph as isize), limit: h },
            Bound { row: 2, tap: 3, stride: sw as isize, dilation: dw as isize, offset: -(pw as isize), limit: w },
            Bound::NONE,
        ],
        a_offset: -(ph as isize) * line - pw as isize * pixel,
        depth,
        cols,
        panel,
        ..Contraction::NEW
    };
    (c, images * h * w * channels, images * oh * ow * out)
}

pub(crate) fn pack_all(c: &Contraction, w: &[f32]) -> Vec<f32> {
    let (k, groups) = (c.k(), c.batches[1].extent);
    let len = packed_len(c.cols, k, c.panel);
    let mut packed = vec![f32::NAN; len * groups];
    for g in 0..groups {
        pack(c.cols, k, c.panel, &mut packed[g * len..][..len], |k_, n| w[(g * k + k_) * c.cols + n]);
    }
    assert!(packed.iter().all(|x| !x.is_nan()));
    packed
}

#[test]
pub(crate) fn random_convolutions_match_the_definition_on_every_isa() {
    let mut r = Random(0x1234_5678_9abc);
    for case in 0..250 {
        let (c, a_len, out_len) = random_convolution(&mut r);
        let (a, w) = (r.floats(a_len), r.floats(c.batches[1].extent * c.k() * c.cols));
        let (bias, residual, old) = (r.floats(c.batches[1].extent * c.cols), r.floats(out_len), r.floats(out_len));
        let packed = pack_all(&c, &w);
        let (with_bias, with_residual, accumulate, clamped, closure) =
            (r.below(2) == 0, r.below(2) == 0, r.below(4) == 0, r.below(2) == 0, r.below(3) == 0);
        assert!(c.fits(Extent::contiguous(a_len), packed.len(), Extent::contiguous(out_len)), "{c:?}");
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let mut out = old.clone();
            let double = |mut tile: Tile<'_>| {
                let (group, first, cols) = (tile.batch[1], tile.first_col, tile.cols());
                for (m, row) in tile.rows() {
                    assert!(m < c.m() && first + cols <= c.cols && row.len() == cols && group < 3);
                    row.iter_mut().for_each(|x| *x = *x * 2.0 + 1.0);
                }
            };
            let epilogue = Epilogue {
                bias: with_bias.then_some(&bias[..]),
                residual: with_residual.then(|| residual[..].src()),
                accumulate,
                clamp: clamped.then_some((-2.0, 6.0)),
                then: if closure { Some(&double) } else { None },
            };
            c.run(cx, a[..].src(), &packed, Dst::from_slice(&mut out), epilogue);
            for g in 0..c.batches[1].extent {
                let group_w = &w[g * c.k() * c.cols..];
                for m in 0..c.m() {
                    for n in 0..c.cols {
                        let at = (m * c.batches[1].extent + g) * c.cols + n;
                        let (mut want, magnitude) = definition(&c, &a, group_w, [0, g], m, n);
                        want += if with_bias { f64::from(bias[g * c.cols + n]) } else { 0.0 };
                        want += if with_residual { f64::from(residual[at]) } else { 0.0 };
                        want += if accumulate { f64::from(old[at]) } else { 0.0 };
                        want = if clamped { want.clamp(-2.0, 6.0) } else { want };
                        want = if closure { want * 2.0 + 1.0 } else { want };
                        let error = (f64::from(out[at]) - want).abs();
                        assert!(
                            error <= 4e-6 * (magnitude + 4.0),
                            "case {case} {:?} {m} {n}: {} not {want}\n{c:?}",
                            cx.isa(),
                            out[at]
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn packed_rows_give_the_same_bits() {
    let mut r = Random(0xfeed);
    for case in 0..150 {
        let (mut c, a_len, _) = random_convolution(&mut r);
        let vectors = 16 * (1 + r.below(9));
        c.cols = vectors + if r.below(3) == 0 { r.below(16) } else { 0 };
        c.panel = [16, 32, 48][r.below(3)].min(vectors);
        let (groups, one) = (c.batches[1].extent, packed_len(c.cols, c.k(), c.panel));
        c.batches[1] = Batch { w: one, out: c.cols, residual: c.cols, bias: c.cols, ..c.batches[1] };
        let mut below = groups * c.cols;
        for axis in c.rows.iter_mut().rev() {
            (axis.out, axis.residual) = (below, below);
            below *= axis.extent;
        }
        let (a, w) = (r.floats(a_len), r.floats(groups * c.k() * c.cols));
        let (bias, residual) = (r.floats(groups * c.cols), r.floats(below));
        let packed = pack_all(&c, &w);
        let halve = |mut tile: Tile<'_>| tile.rows().for_each(|(_, row)| row.iter_mut().for_each(|x| *x *= 0.5));
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let epilogue = Epilogue {
                bias: Some(&bias),
                residual: Some(residual[..].src()),
                clamp: (case % 2 == 0).then_some((-2.0, 6.0)),
                then: if case % 3 == 0 { Some(&halve) } else { None },
                ..Epilogue::NONE
            };
            let (mut want, mut out) = (vec![7.0; below], vec![8.0; below]);
            // Working memory is written before it is read.
            let mut scratch = vec![f32::NAN; c.packed_rows_len()];
            c.run(cx, a[..].src(), &packed, Dst::from_slice(&mut want), epilogue);
            c.run_packed(cx, a[..].src(), &packed, &mut scratch, Dst::from_slice(&mut out), epilogue);
            assert_eq!(want, out, "case {case} {:?} {c:?}", cx.isa());
            assert!(!scratch[0].is_nan(), "taken the direct way");
            #[cfg(feature = "threads")]
            {
                let threads = 2 + case % 2;
                let team = crate::team::Team::new(threads);
                let (mut divided, mut scratch) = (vec![9.0; below], vec![f32::NAN; c.packed_rows_len_apart(threads)]);
                let to = Dst::from_slice(&mut divided);
                c.run_packed(cx.with_team(&team), a[..].src(), &packed, &mut scratch, to, epilogue);
                assert_eq!(want, divided, "{threads} threads, case {case} {:?} {c:?}", cx.isa());
            }
            let update = Epilogue { residual: None, accumulate: true, ..epilogue };
            let (mut direct, mut out) = (residual.clone(), residual.clone());
            c.run(cx, a[..].src(), &packed, Dst::from_slice(&mut direct), update);
            c.run_packed(cx, a[..].src(), &packed, &mut scratch, Dst::from_slice(&mut out), update);
            assert_eq!((&want, &want), (&direct, &out), "in place, case {case} {:?} {c:?}", cx.isa());
        }
    }
}

/// Products so large that threads divide rows, columns, and the halves of panels where there are few.
#[cfg(feature = "threads")]
#[test]
fn divided_products_give_the_same_bits() {
    let mut r = Random(0x5eed);
    for (m, k, cols) in
        [(25, 3300, 96), (60, 190, 900), (9, 6200, 100), (50, 700, 288), (200, 96, 160), (221, 64, 96), (26, 1800, 96)]
    {
        let row = RowAxis { extent: m, a: k as isize, out: cols, residual: 0 };
        let c = Contraction {
            rows: [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, row],
            depth: k,
            cols,
            panel: 32,
            ..Contraction::NEW
        };
        let (a, w) = (r.floats(m * k), r.floats(k * cols));
        let packed = pack_all(&c, &w);
        let double = |mut tile: Tile<'_>| tile.rows().for_each(|(_, row)| row.iter_mut().for_each(|x| *x *= 2.0));
        let epilogue = Epilogue { then: Some(&double), ..Epilogue::NONE };
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let mut want = vec![7.0; m * cols];
            c.run(cx, a[..].src(), &packed, Dst::from_slice(&mut want), epilogue);
            for (row, col) in [(0, 0), (m - 1, cols - 1), (m / 2, cols / 2 - 1), (m / 3, cols - 20)] {
                let (sum, magnitude) = definition(&c, &a, &w, [0, 0], row, col);
                assert!((f64::from(want[row * cols + col]) - 2.0 * sum).abs() <= 1e-5 * (magnitude + 1.0));
            }
            for threads in [2, 3] {
                let team = crate::team::Team::new(threads);
                let (cx, mut out) = (cx.with_team(&team), vec![8.0; m * cols]);
                c.run(cx, a[..].src(), &packed, Dst::from_slice(&mut out), epilogue);
                assert_eq!(want, out, "{threads} threads {:?} {m} {k} {cols}", cx.isa());
                let (mut out, mut scratch) = (vec![9.0; m * cols], vec![f32::NAN; c.packed_rows_len_apart(threads)]);
                c.run_packed(cx, a[..].src(), &packed, &mut scratch, Dst::from_slice(&mut out), epilogue);
                assert_eq!(want, out, "packed, {threads} threads {:?} {m} {k} {cols}", cx.isa());
            }
        }
    }
}

#[test]
fn matrix_products_of_all_small_sizes() {
    let mut r = Random(77);
    for m in 1..28 {
        for cols in [1, 4, 5, 8, 15, 16, 17, 31, 32, 33, 48, 70] {
            let k = 1 + r.below(40);
            let (a, w) = (r.floats(m * k), r.floats(k * cols));
            let c = Contraction {
                rows: [
                    RowAxis::ONE,
                    RowAxis::ONE,
                    RowAxis::ONE,
                    RowAxis { extent: m, a: k as isize, out: cols, residual: 0 },
                ],
                depth: k,
                cols,
                ..Contraction::NEW
            };
            let mut packed = vec![0.0; packed_len(cols, k, 32)];
            pack_strided(Cx::detect(), cols, k, 32, w[..].src(), 0, (cols, 1), &mut packed);
            let transposed: Vec<f32> = (0..cols * k).map(|i| w[i % k * cols + i / k]).collect();
            let mut same = vec![7.0; packed.len()];
            pack_strided(Cx::detect(), cols, k, 32, transposed[..].src(), 0, (1, k), &mut same);
            assert_eq!(same, packed, "{cols} {k}");
            for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
                let mut out = vec![7.0; m * cols + 1];
                c.run(cx, a[..].src(), &packed, Dst::from_slice(&mut out), Epilogue::NONE);
                assert_eq!(out[m * cols], 7.0);
                for (i, got) in out[..m * cols].iter().enumerate() {
                    let (want, magnitude) = definition(&c, &a, &w, [0, 0], i / cols, i % cols);
                    assert!(
                        (f64::from(*got) - want).abs() <= 4e-6 * (magnitude + 1e-3),
                        "{:?} {m} {cols} {k}",
                        cx.isa()
                    );
                }
            }
        }
    }
}

#[test]
fn large_blocks_and_strided_operands() {
    // 700 rows: several blocks. Operands are column blocks of one buffer each.
    let (m, k, cols) = (700, 9, 20);
    let mut r = Random(5);
    let (a, w) = (r.floats(m * 24), r.floats(k * cols));
    let c = Contraction {
        rows: [RowAxis::ONE, RowAxis::ONE, RowAxis::ONE, RowAxis { extent: m, a: 24, out: 40, residual: 40 }],
        depth: k,
        cols,
        ..Contraction::NEW
    };
    let mut packed = vec![0.0; packed_len(cols, k, 32)];
    pack_strided(Cx::detect(), cols, k, 32, w[..].src(), 0, (1, k), &mut packed);
    let (a_extent, out_extent) = (Extent { row: 9, stride: 24, rows: m }, Extent { row: 20, stride: 40, rows: m });
    assert!(c.fits(a_extent, packed.len(), out_extent));
    assert!(!c.fits(Extent { row: 8, ..a_extent }, packed.len(), out_extent));
    assert!(!c.fits(a_extent, packed.len(), Extent { rows: m - 1, ..out_extent }));
    assert!(!c.fits(a_extent, packed.len() - 1, out_extent));
    for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
        let mut out = vec![7.0f32; m * 40];
        // SAFETY: the extents lie inside the vectors.
        let (src, dst) = unsafe { (Src::new(a.as_ptr(), a_extent), Dst::new(out.as_mut_ptr(), out_extent)) };
        c.run(cx, src, &packed, dst, Epilogue::NONE);
        for (i, got) in out.iter().enumerate() {
            let (row, col) = (i / 40, i % 40);
            if col >= cols {
                assert_eq!(*got, 7.0);
                continue;
            }
            let want: f64 = (0..k).map(|d| f64::from(a[row * 24 + d]) * f64::from(w[col * k + d])).sum();
            assert!((f64::from(*got) - want).abs() < 1e-4);
        }
    }
}

#[test]
fn clamp_keeps_nan() {
    let c = Contraction { cols: 32, ..Contraction::NEW };
    for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
        let mut out = [0.0; 32];
        c.run(
            cx,
            [f32::NAN].src(),
            &[1.0; 32],
            Dst::from_slice(&mut out),
            Epilogue { clamp: Some((0.0, 1.0)), ..Epilogue::NONE },
        );
        assert!(out.iter().all(|x| x.is_nan()), "{:?}", cx.isa());
    }
}

#[test]
fn random_descriptors_never_leave_their_operands() {
    let mut r = Random(99);
    let (mut fitting, cx) = (0, Cx::detect());
    for _ in 0..60_000 {
        let (mut c, mut a_len, mut out_len) = random_convolution(&mut r);
        let mut w_len = packed_len(c.cols, c.k(), c.panel) * c.batches[1].extent;
        for _ in 0..1 + r.below(2) {
            let huge = [usize::MAX, usize::MAX / 2 + 1, 1 << 62, 1 << 40][r.below(4)];
            let odd = [r.below(5), r.below(100)][r.below(2)];
            match r.below(16) {
                0 => a_len = r.below(a_len + 1),
                1 => w_len = r.below(w_len + 1),
                2 => out_len = r.below(out_len + 1),
                3 => c.a_offset = [huge as isize, odd as isize - 40][r.below(2)],
                4 => c.depth = [huge, odd][r.below(2)],
                5 => c.cols = [huge, odd][r.below(2)],
                6 => c.panel = odd,
                7 => c.rows[r.below(4)].extent = odd,
                8 => c.rows[r.below(4)].a = [huge as isize, odd as isize - 40][r.below(2)],
                9 => c.rows[r.below(4)].out = [huge, odd][r.below(2)],
                10 => c.taps[r.below(4)] = Tap { extent: [huge, odd][r.below(2)], a: odd as isize - 3 },
                11 => c.bounds[r.below(3)].limit = [huge, odd][r.below(2)],
                12 => c.bounds[r.below(3)].offset = [huge as isize, odd as isize - 40][r.below(2)],
                13 => (c.bounds[r.below(3)].row, c.bounds[r.below(3)].tap) = (r.below(6) as u8, r.below(6) as u8),
                14 => {
                    (c.bounds[r.below(3)].stride, c.bounds[r.below(3)].dilation) = (odd as isize - 2, 3 - odd as isize)
                }
                _ => {
                    c.batches[r.below(2)] = Batch {
                        extent: odd,
                        a: odd as isize - 3,
                        w: odd,
                        out: odd,
                        residual: 0,
                        bias: [huge, odd][r.below(2)],
                    }
                }
            }
        }
        let products = c
            .k()
            .saturating_mul(c.m())
            .saturating_mul(c.cols)
            .saturating_mul(c.batches[0].extent * c.batches[1].extent);
        if products > 100_000 && c.fits(Extent::contiguous(a_len), w_len, Extent::contiguous(out_len)) {
            continue;
        }
        // Guards around the result show writes outside.
        let (a, w, mut out) = (vec![1.0; a_len], vec![1.0; w_len], vec![0.0; out_len + 128]);
        let bias = r.floats(c.cols.min(100));
        let fits = c.fits(Extent::contiguous(a_len), w_len, Extent::contiguous(out_len)) && c.fits_bias(bias.len());
        let result = Dst::from_slice(&mut out[64..64 + out_len]);
        c.run(cx, a[..].src(), &w, result, Epilogue { bias: Some(&bias), ..Epilogue::NONE });
        assert!(out[..64].iter().chain(&out[64 + out_len..]).all(|x| *x == 0.0));
        assert!(fits || out.iter().all(|x| *x == 0.0));
        fitting += usize::from(fits);
        if fits && c.m().saturating_mul(c.cols).saturating_mul(c.batches[0].extent * c.batches[1].extent) > 0 {
            // The proof is no stricter than the definition, which indexes with checks.
            for _ in 0..3 {
                let (m, n) = (r.below(c.m()), r.below(c.cols));
                let batch = [r.below(c.batches[0].extent), r.below(c.batches[1].extent)];
                definition(&c, &a, &vec![0.0; c.k() * c.cols], batch, m, n);
            }
        }
    }
    assert!(fitting > 1000, "{fitting}");
}
