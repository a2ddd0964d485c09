//! Kernels of several products in a vector against sums in double precision.
extern crate std;
use super::super::line::TapAt;
use super::super::results::Results;
use super::super::tests::Random;
use super::{NarrowArgs, NarrowKernel, fours, pairs};
use crate::contraction::kernel::LINE;
use crate::isa::Isa;
use crate::isa::avx512::Avx512;
use crate::math::ceil_div_usize;
use core::ptr::{null, null_mut};
use std::vec;
use std::vec::Vec;

const OUTPUTS: usize = 7;
const WINDOW: usize = 3;

/// # Safety
/// As [`pairs::outputs`], of every second pixel; the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2")]
unsafe fn of_pairs(args: &NarrowArgs<'_>, lines: &[*const f32]) {
    // SAFETY: promised by the caller.
    unsafe { pairs::outputs::<_, 2, OUTPUTS>(Avx512::new(), args, lines) }
}

/// # Safety
/// As [`fours::outputs`], of every second pixel; the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2")]
unsafe fn of_fours(args: &NarrowArgs<'_>, lines: &[*const f32]) {
    // SAFETY: promised by the caller.
    unsafe { fours::outputs::<_, 2, OUTPUTS>(Avx512::new(), args, lines) }
}

/// Every number of channels and of columns; the second row of the window adds to sums of the first one, which wait.
fn check(kernel: NarrowKernel, columns: usize) {
    if !Isa::Avx512.is_available() {
        return;
    }
    let mut r = Random(0x0009_a125);
    for (depth, cols) in (1..=35).flat_map(|depth| (1..=columns).map(move |cols| (depth, cols))) {
        let pixels = (OUTPUTS - 1) * 2 + WINDOW;
        let mut rows = [(); 2].map(|()| vec![0.0; ceil_div_usize(depth, LINE) * pixels * LINE]);
        let at = |pixel: usize, channel: usize| (channel / LINE * pixels + pixel) * LINE + channel % LINE;
        for (row, pixel) in (0..2).flat_map(|row| (0..pixels).map(move |pixel| (row, pixel))) {
            (0..depth).for_each(|channel| rows[row][at(pixel, channel)] = r.floats(1)[0]);
        }
        let mut w = r.floats(2 * WINDOW * depth * LINE);
        w.iter_mut().enumerate().filter(|(i, _)| i % LINE >= cols).for_each(|(_, w)| *w = 0.0);
        let (mut out, mut sums) = (vec![f32::NAN; OUTPUTS * cols], vec![f32::NAN; 2 * OUTPUTS * LINE]);
        let to = Results {
            out: out.as_mut_ptr(),
            out_step: cols,
            bias: null(),
            residual: null(),
            residual_step: 0,
            clamp: None,
            bend: None,
            cols,
        };
        let waiting = sums.as_mut_ptr();
        for (row, sums) in [(null(), waiting), (waiting.cast_const(), null_mut())].into_iter().enumerate() {
            let args = NarrowArgs {
                taps: &[TapAt { at: 0, index: row * WINDOW }],
                a: null(),
                pixel: 0,
                stride: 2,
                gap: 1,
                first: 0,
                limit: 0,
                depth,
                channels: (0, depth),
                window: WINDOW,
                w: w.as_ptr(),
                width: 0,
                sums,
                to,
                start: 0,
                outputs: OUTPUTS,
            };
            // SAFETY: the machine has AVX-512; the copy, the weights, the sums and the result are as large as they have to be.
            unsafe { kernel(&args, &[rows[row].as_ptr()]) };
        }
        for (i, got) in out.iter().enumerate() {
            let (output, col) = (i / cols, i % cols);
            let products: Vec<f64> = (0..2 * WINDOW * depth)
                .map(|k| {
                    let (row, tap, channel) = (k / depth / WINDOW, k / depth % WINDOW, k % depth);
                    f64::from(rows[row][at(output * 2 + tap, channel)]) * f64::from(w[k * LINE + col])
                })
                .collect();
            let (sum, size) = (products.iter().sum::<f64>(), products.iter().map(|x| x.abs()).sum::<f64>());
            assert!((f64::from(*got) - sum).abs() <= 1e-6 * (size + 1.0), "{got} {sum} {depth} {cols}");
        }
    }
}

#[test]
fn pairs_of_products_make_the_sums() {
    check(of_pairs, pairs::COLUMNS);
}

#[test]
fn fours_of_products_make_the_sums() {
    check(of_fours, fours::COLUMNS);
}

#[test]
fn fours_are_for_channels_that_nearly_fill_them() {
    let fill: std::vec::Vec<_> = (1..=24).filter(|depth| fours::fill(*depth)).collect();
    assert_eq!(fill, [4, 8, 11, 12, 15, 16, 18, 19, 20, 22, 23, 24]);
}
