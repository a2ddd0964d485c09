//! Every instruction set against a definition in double precision, on random windows.
extern crate std;
use super::lines::ByLines;
use super::*;
use crate::contraction::Tile;
use crate::contraction::tests::Random;
use crate::isa::Isa;
use crate::view::View;
use std::vec;
use std::vec::Vec;

/// A random pooling window over a padded, strided, dilated NHWC input, pixels of which lie at multiples of so many channels;
/// lengths of input and output.
fn random_window(r: &mut Random, multiple: usize) -> (Window, usize, usize) {
    let most = [5, 40, 100][r.below(3)];
    let channels = 1 + r.below(most);
    let large = r.below(8) == 0;
    let (kh, kw) = if large { (9 + r.below(3), 8 + r.below(9)) } else { (1 + r.below(4), 1 + r.below(7)) };
    let (sh, sw, dh, dw) = (1 + r.below(2), 1 + r.below(3), 1 + r.below(2), 1 + r.below(2));
    let padding = (r.below(4), r.below(4));
    let size = ((kh - 1) * dh + 1 + r.below(5), (kw - 1) * dw + 1 + r.below(30));
    let images = 1 + r.below(2);
    let pitch = channels.next_multiple_of(multiple);
    padded_window((kh, kw), (sh, sw), (dh, dw), padding, size, (images, channels, pitch))
}

/// A window over images of channels at a distance.
fn padded_window(
    (kh, kw): (usize, usize),
    (sh, sw): (usize, usize),
    (dh, dw): (usize, usize),
    (ph, pw): (usize, usize),
    (h, w): (usize, usize),
    (images, channels, pitch): (usize, usize, usize),
) -> (Window, usize, usize) {
    let (oh, ow) = ((h + 2 * ph - (kh - 1) * dh - 1) / sh + 1, (w + 2 * pw - (kw - 1) * dw - 1) / sw + 1);
    let (line, pixel) = ((w * pitch) as isize, pitch as isize);
    let row = |extent, a, out| RowAxis { extent, a, out, residual: out };
    let window = Window {
        rows: [
            RowAxis::ONE,
            row(images, line * h as isize, oh * ow * channels),
            row(oh, sh as isize * line, ow * channels),
            row(ow, sw as isize * pixel, channels),
        ],
        taps: [
            Tap::ONE,
            Tap::ONE,
            Tap { extent: kh, a: dh as isize * line },
            Tap { extent: kw, a: dw as isize * pixel },
        ],
        bounds: [
            Bound { row: 2, tap: 2, stride: sh as isize, dilation: dh as isize, offset: -(ph as isize), limit: h },
            Bound { row: 3, tap: 3, stride: sw as isize, dilation: dw as isize, offset: -(pw as isize), limit: w },
            Bound::NONE,
        ],
        a_offset: -(ph as isize) * line - pw as isize * pixel,
        channels,
        ..Window::NEW
    };
    (window, images * h * w * pitch, images * oh * ow * channels)
}

/// The taps of output row `m` that are not in the padding: (index, element of channel 0).
fn valid_taps(c: &Window, m: usize) -> Vec<(usize, usize)> {
    let [_, r1, r2, r3] = c.rows;
    let row = [m / r3.extent / r2.extent % r1.extent, m / r3.extent % r2.extent, m % r3.extent].map(|i| i as isize);
    let mut taps = Vec::new();
    for y in 0..c.taps[2].extent {
        for x in 0..c.taps[3].extent {
            let at = |b: &Bound, r: isize, t: usize| {
                (0..b.limit as isize).contains(&(b.offset + r * b.stride + t as isize * b.dilation))
            };
            if at(&c.bounds[0], row[1], y) && at(&c.bounds[1], row[2], x) {
                let at = c.a_offset + row[0] * r1.a + row[1] * r2.a + row[2] * r3.a;
                let at = at + y as isize * c.taps[2].a + x as isize * c.taps[3].a;
                taps.push((y * c.taps[3].extent + x, at as usize));
            }
        }
    }
    taps
}

/// Runs an operation on random numbers on every instruction set: depthwise, maximum, average inside, average over a constant, sum.
fn check(r: &mut Random, (c, a_len, out_len): (Window, usize, usize), operation: usize) {
    let (a, w) = (r.floats(a_len), r.floats(c.window() * c.channels));
    let (bias, old) = (r.floats(c.channels), r.floats(out_len));
    let (with_bias, accumulate, closure) = (r.below(2) == 0, r.below(4) == 0, r.below(4) == 0);
    assert!(c.fits(Extent::contiguous(a_len), Extent::contiguous(out_len)) && c.fits_weights(w.len()));
    assert!(!c.fits_weights(w.len() - 1) && !c.fits(Extent::contiguous(a_len), Extent::contiguous(out_len - 1)));
    for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
        let mut out = old.clone();
        let negate = |mut tile: Tile<'_>| tile.rows().for_each(|(_, row)| row.iter_mut().for_each(|x| *x = -*x));
        let epilogue = Epilogue {
            bias: with_bias.then_some(&bias[..]),
            accumulate,
            then: if closure { Some(&negate) } else { None },
            ..Epilogue::NONE
        };
        let (src, dst) = (a[..].src(), Dst::from_slice(&mut out));
        match operation {
            0 => c.depthwise(cx, src, &w, dst, epilogue),
            1 => c.max(cx, src, dst, epilogue),
            2 => c.average(cx, src, dst, Divisor::InBounds, epilogue),
            3 => c.average(cx, src, dst, Divisor::Fixed(4.0), epilogue),
            _ => c.average(cx, src, dst, Divisor::Fixed(1.0), epilogue),
        }
        for m in 0..out_len / c.channels {
            let taps = valid_taps(&c, m);
            for n in 0..c.channels {
                let value = |(_, at): &(usize, usize)| f64::from(a[at + n]);
                let sum: f64 = taps.iter().map(value).sum();
                let mut want = match operation {
                    0 => taps.iter().map(|t| value(t) * f64::from(w[t.0 * c.channels + n])).sum(),
                    1 => taps.iter().map(value).fold(f64::NEG_INFINITY, f64::max),
                    2 => sum / taps.len().max(1) as f64,
                    3 => sum / 4.0,
                    _ => sum,
                };
                let at = m * c.channels + n;
                want += if with_bias { f64::from(bias[n]) } else { 0.0 };
                want += if accumulate { f64::from(old[at]) } else { 0.0 };
                want = if closure { -want } else { want };
                let got = f64::from(out[at]);
                let near = got == want || (got - want).abs() <= 1e-4;
                assert!(near, "{:?} operation {operation} {m} {n}: {got} not {want}\n{c:?}", cx.isa());
            }
        }
    }
}

#[test]
fn random_windows_match_the_definition_on_every_isa() {
    let mut r = Random(0xfeed_5678);
    for _ in 0..600 {
        let (window, operation) = (random_window(&mut r, 1), r.below(5));
        check(&mut r, window, operation);
    }
}

#[test]
fn depthwise_convolutions_of_pixels_that_share_sets_match_the_definition() {
    let mut r = Random(0xca5e_11fe);
    let copied = |c: &Window| {
        let c = c.geometry();
        Isa::ALL
            .into_iter()
            .filter_map(|isa| ByLines::of(&c, isa, Operation::Depthwise))
            .any(|d| d.copies(&c).is_some())
    };
    let windows: Vec<_> = (0..4000).map(|_| random_window(&mut r, 512)).filter(|(c, ..)| copied(c)).collect();
    assert!(windows.len() > 40 || Isa::ALL.iter().all(|isa| line_kernel::of(*isa).is_empty()), "{}", windows.len());
    for window in windows.into_iter().take(100) {
        check(&mut r, window, 0);
    }
}

#[test]
fn depthwise_convolutions_of_lines_of_any_length_match_the_definition() {
    let mut r = Random(0x10a6_11e5);
    let (mut long, mut high) = (0, 0);
    for i in 0..240 {
        // From two taps on, with images smaller than the window.
        let (kh, kw) = ([1 + r.below(6), 10 + r.below(30)][i % 2], 2 + r.below([8, 40][i / 2 % 2]));
        let (h, w) = (1 + r.below(12), 1 + r.below(40));
        let padding = (kh.saturating_sub(h).max(r.below(kh)), kw.saturating_sub(w).max(r.below(kw)));
        let window = padded_window((kh, kw), (1, 1), (1, 1), padding, (h, w), (1, 1 + r.below(40), 40));
        let lines =
            Isa::ALL.into_iter().any(|isa| ByLines::of(&window.0.geometry(), isa, Operation::Depthwise).is_some());
        long += usize::from(lines && ![3, 5, 7, 9].contains(&kw));
        high += usize::from(lines && kh > 9);
        check(&mut r, window, 0);
    }
    assert!(long > 60 && high > 40 || Isa::ALL.iter().all(|isa| line_kernel::of(*isa).is_empty()), "{long} {high}");
}

#[test]
fn pooling_of_lines_of_any_length_matches_the_definition_and_is_the_same_on_a_team() {
    let (mut r, mut lines) = (Random(0x9001_11e5), 0);
    for i in 0..120 {
        let (kh, kw, stride) = (1 + r.below([4, 12][i % 2]), 2 + r.below([3, 15][i / 2 % 2]), 1 + r.below(2));
        let (h, w) = (kh + r.below(6), kw + r.below([20, 180][i / 4 % 2]));
        let padding = (r.below(kh), r.below(kw));
        let (c, a_len, out_len) =
            padded_window((kh, kw), (stride, stride), (1, 1), padding, (h, w), (1 + r.below(2), 1 + r.below(70), 70));
        let operation = [Operation::Max, Operation::Average(Divisor::Fixed(1.0))][i % 2];
        let used = |isa: Isa| ByLines::of(&c.geometry(), isa, operation).is_some();
        lines += usize::from(Isa::ALL.into_iter().any(used));
        check(&mut r, (c, a_len, out_len), [1, 4][i % 2]);
        #[cfg(feature = "threads")]
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let (a, team) = (r.floats(a_len), crate::team::Team::new(2 + i % 3));
            let [mut one, mut divided] = [vec![7.0f32; out_len], vec![7.0f32; out_len]];
            c.run(cx, operation, a[..].src(), &[], Dst::from_slice(&mut one), Epilogue::NONE);
            c.run(cx.with_team(&team), operation, a[..].src(), &[], Dst::from_slice(&mut divided), Epilogue::NONE);
            assert!(one == divided, "{c:?} {:?}", cx.isa());
        }
    }
    assert!(lines > 80 || Isa::ALL.iter().all(|isa| pool_kernel::of(*isa).is_empty()), "{lines}");
}

#[test]
fn max_keeps_nan_wherever_it_is() {
    for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
        for at in 0..3 {
            let c =
                Window { taps: [Tap::ONE, Tap::ONE, Tap::ONE, Tap { extent: 3, a: 33 }], channels: 33, ..Window::NEW };
            let mut a = vec![1.0f32; 99];
            a[at * 33..][..33].fill(f32::NAN);
            let mut out = vec![0.0f32; 33];
            c.max(cx, a[..].src(), Dst::from_slice(&mut out), Epilogue::NONE);
            assert!(out.iter().all(|x| x.is_nan()), "{:?} {at}", cx.isa());
        }
    }
}

#[test]
fn sums_of_all_pixels_match_the_definition_on_every_isa() {
    let mut r = Random(0x0a11_5eed);
    let sizes = [
        (3, 9, 8, 0),
        (16, 8, 8, 0),
        (21, 13, 17, 0),
        (45, 31, 12, 5),
        (96, 30, 17, 0),
        (300, 14, 14, 0),
        (40, 3, 60, 7),
    ];
    for (channels, height, width, between) in sizes {
        let (line, gap) = (width * (channels + 3) + between, channels + 3);
        let mut c = Window { channels, ..Window::NEW };
        c.taps[2] = Tap { extent: height, a: line as isize };
        c.taps[3] = Tap { extent: width, a: gap as isize };
        let a = r.floats(height * line);
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let mut out = vec![7.0f32; channels];
            let halve = |mut tile: Tile<'_>| tile.rows().for_each(|(_, row)| row.iter_mut().for_each(|x| *x /= 2.0));
            let epilogue = Epilogue { then: Some(&halve), ..Epilogue::NONE };
            c.average(cx, a[..].src(), Dst::from_slice(&mut out), Divisor::Fixed(1.0), epilogue);
            for (n, got) in out.iter().enumerate() {
                let at = |i: usize| i / width * line + i % width * gap + n;
                let want: f64 = (0..height * width).map(|i| f64::from(a[at(i)])).sum::<f64>() / 2.0;
                assert!((f64::from(*got) - want).abs() <= 1e-4, "{:?} {channels} {n}: {got} not {want}", cx.isa());
            }
            #[cfg(feature = "threads")]
            for threads in 2..5 {
                let (team, mut divided) = (crate::team::Team::new(threads), vec![7.0f32; channels]);
                let (cx, to) = (cx.with_team(&team), Dst::from_slice(&mut divided));
                c.average(cx, a[..].src(), to, Divisor::Fixed(1.0), epilogue);
                assert_eq!(out, divided, "{threads} threads");
            }
        }
    }
}

#[test]
#[cfg(feature = "threads")]
fn depthwise_convolutions_on_a_team_have_the_bits_of_one_thread() {
    let mut r = Random(0xd1f1_de5d);
    let layers = [(128, 7, 7), (200, 5, 9), (208, 3, 30), (48, 29, 8), (70, 14, 14), (512, 9, 11), (1024, 7, 7)];
    for (channels, height, width, taps) in
        layers.map(|(c, h, w)| (c, h, w, 3)).into_iter().chain([(72, 17, 9, 13), (136, 5, 20, 21)])
    {
        let line = width * channels;
        let mut c = Window { channels, ..Window::NEW };
        for (at, (extent, out)) in [(height, line), (width, channels)].into_iter().enumerate() {
            let limit = extent;
            c.rows[at] = RowAxis { extent, a: out as isize, out, residual: out };
            c.taps[at + 2] = Tap { extent: taps, a: out as isize };
            let offset = -(taps as isize / 2);
            c.bounds[at] = Bound { row: at as u8, tap: at as u8 + 2, stride: 1, dilation: 1, offset, limit };
        }
        c.a_offset = -((line + channels) as isize) * (taps as isize / 2);
        let (a, w, bias) = (r.floats(height * line), r.floats(taps * taps * channels), r.floats(channels));
        let double = |mut tile: Tile<'_>| {
            let first = tile.first_col;
            for (i, row) in tile.rows() {
                row.iter_mut().enumerate().for_each(|(j, x)| *x = *x * 2.0 + (first + i + j) as f32);
            }
        };
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            for then in [false, true] {
                let then: Option<crate::contraction::Then<'_>> = if then { Some(&double) } else { None };
                let epilogue = Epilogue { bias: Some(&bias), clamp: Some((-0.5, 0.5)), then, ..Epilogue::NONE };
                let mut one = vec![7.0f32; height * line];
                c.depthwise(cx, a[..].src(), &w, Dst::from_slice(&mut one), epilogue);
                for threads in 2..5 {
                    let (team, mut divided) = (crate::team::Team::new(threads), vec![7.0f32; height * line]);
                    c.depthwise(cx.with_team(&team), a[..].src(), &w, Dst::from_slice(&mut divided), epilogue);
                    assert!(one == divided, "{threads} threads, {channels} x {height} x {width} {:?}", cx.isa());
                }
            }
        }
    }
}

#[test]
fn planes_match_the_definition_on_every_isa() {
    let mut r = Random(0x9a7e_0115);
    let mut taken = 0;
    for case in 0..400 {
        let (kernel, stride) = ((1 + r.below(4), 1 + r.below(7)), (1 + r.below(3), 1 + r.below(2)));
        let (dilation, padding) = ((1 + r.below(2), 1), (r.below(kernel.0), r.below(kernel.1)));
        let width = kernel.1 + if case % 40 == 0 { 1900 + r.below(300) } else { r.below(90) };
        let size = ((kernel.0 - 1) * dilation.0 + 1 + r.below(5), width);
        let plane = padded_window(kernel, stride, dilation, padding, size, (1 + r.below(4), 1, 1));
        let operation = 1 + r.below(4);
        let kind = [Operation::Max, Operation::Average(Divisor::InBounds)][usize::from(operation > 1)];
        taken += usize::from(planes::Planes::of(&plane.0.geometry(), kind, &Epilogue::NONE).is_some());
        check(&mut r, plane, operation);
    }
    assert!(taken > 300 || !crate::isa::VECTORS, "{taken}");
}

#[test]
#[cfg(feature = "threads")]
fn planes_on_a_team_have_the_bits_of_one_thread() {
    let mut r = Random(0x7ea3_0115);
    for _ in 0..60 {
        let size = (3 + r.below(30), 3 + r.below(200));
        let (c, a_len, out_len) =
            padded_window((3, 3), (1, 1 + r.below(2)), (1, 1), (1, 1), size, (1 + r.below(9), 1, 1));
        let a = r.floats(a_len);
        let team = crate::team::Team::new(3);
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let mut out = [vec![7.0f32; out_len], vec![7.0f32; out_len]];
            for (cx, out) in [cx, cx.with_team(&team)].into_iter().zip(&mut out) {
                c.average(cx, a[..].src(), Dst::from_slice(out), Divisor::InBounds, Epilogue::NONE);
            }
            assert_eq!(out[0], out[1], "{:?}", cx.isa());
        }
    }
}

#[test]
fn what_is_no_number_stays_so_in_planes() {
    let (c, a_len, out_len) = padded_window((3, 3), (1, 1), (1, 1), (1, 1), (9, 60), (1, 1, 1));
    for place in [0, 59, 4 * 60 + 30, a_len - 1] {
        let mut a = vec![1.0f32; a_len];
        a[place] = f32::NAN;
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let mut out = vec![0.0f32; out_len];
            c.max(cx, a[..].src(), Dst::from_slice(&mut out), Epilogue::NONE);
            let near = |at: usize| (at / 60).abs_diff(place / 60) < 2 && (at % 60).abs_diff(place % 60) < 2;
            assert!(out.iter().enumerate().all(|(at, x)| x.is_nan() == near(at)), "{:?} {place}", cx.isa());
        }
    }
}
