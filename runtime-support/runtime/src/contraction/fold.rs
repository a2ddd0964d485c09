//! Narrow groups of convolutions that were merged: weights between different groups are zeros. What is left of them is folded
//! into fewer rows, whose products take every column's channel of its own group.
// Other targets have no kernel that takes them.
#![cfg_attr(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")), allow(dead_code))]

use super::Contraction;
use super::kernel::LINE;
use crate::simd::Simd;
use core::mem::MaybeUninit;

/// Taps of a row of the window.
pub(super) const WINDOW: usize = 3;
/// Most taps, and most channels of a group.
const TAPS: usize = 9;
const WIDEST: usize = 8;

/// Folded weights: per tap, `width` rows of [`LINE`].
pub(super) struct Folded {
    rows: [MaybeUninit<f32>; TAPS * WIDEST * LINE],
}

/// What is folded.
pub(super) struct FoldArgs {
    /// Per tap, [`LINE`] rows of as many weights.
    w: *const f32,
    taps: usize,
    /// Room for [`WIDEST`] rows per tap.
    to: *mut f32,
}

/// Returns the channels of a group; 0 if there are no groups.
///
/// # Safety
/// The machine has the instruction set; all addresses are valid.
pub(super) type FoldKernel = unsafe fn(FoldArgs) -> usize;

impl Folded {
    /// None yet.
    pub const NONE: Folded = Folded { rows: [MaybeUninit::uninit(); TAPS * WIDEST * LINE] };

    /// Whether weights of such a convolution can be folded.
    pub fn takes(c: &Contraction) -> bool {
        c.taps[3].extent == WINDOW && c.depth == LINE && c.cols == LINE && c.k() <= TAPS * LINE
    }

    /// Whether the first row of weights is one of groups: that others are will be seen.
    pub fn suits(w: &[f32]) -> bool {
        w.get(WIDEST..LINE).is_some_and(|others| others.iter().all(|w| *w == 0.0))
    }

    /// Folds these weights, if they are those of groups.
    ///
    /// # Safety
    /// The weights are valid, and those of a convolution that [`Folded::takes`]; the machine has the kernel's instruction set.
    pub unsafe fn fold(&mut self, kernel: FoldKernel, c: &Contraction, w: *const f32) -> Option<(*const f32, usize)> {
        let args = FoldArgs { w, taps: c.k() / LINE, to: self.rows.as_mut_ptr().cast() };
        // SAFETY: promised by the caller; there is room for the taps.
        let width = unsafe { kernel(args) };
        (width > 0).then(|| (self.rows.as_ptr().cast(), width))
    }
}

/// The first channel of a channel's or column's group; widths are powers of two.
pub(super) fn first_of_group(width: usize, channel: usize) -> usize {
    channel & !width.wrapping_sub(1)
}

/// The columns of a row that belong to the group of its channel.
fn inside(width: usize, channel: usize) -> u32 {
    ((1u32 << width) - 1) << (first_of_group(width, channel) & (LINE - 1))
}

/// Folds the weights of all taps.
///
/// # Safety
/// As [`FoldKernel`]; the caller is compiled for the instruction set of `S`, whose vectors divide [`LINE`] lanes.
#[inline(always)]
pub(super) unsafe fn fold<S: Simd>(s: S, args: FoldArgs) -> usize {
    let (zero, mut width) = (s.splat(0.0), 2);
    // Of the columns of the vector from `first` on.
    let columns = |width: usize, channel: usize, first: usize| s.mask_from_bits(inside(width, channel) >> first);
    let vectors = || (0..LINE).step_by(S::LANES);
    // SAFETY: promised by the caller.
    unsafe {
        // The first tap suggests a width.
        for (channel, first) in (0..LINE).flat_map(|channel| vectors().map(move |first| (channel, first))) {
            let row = s.load(args.w.add(channel * LINE + first));
            while width <= WIDEST && !s.all(s.eq(s.select(columns(width, channel, first), zero, row), zero)) {
                width *= 2;
            }
        }
        if width > WIDEST {
            return 0;
        }
        // Of the bits of zeros only the sign can be set.
        let mut outside = s.splat_i32(0);
        for tap in 0..args.taps {
            let (from, to) = (args.w.add(tap * LINE * LINE), args.to.add(tap * width * LINE));
            for (channel, first) in (0..width).flat_map(|channel| vectors().map(move |first| (channel, first))) {
                let mut folded = zero;
                let mut same = channel;
                while same < LINE {
                    let (row, own) = (s.load(from.add(same * LINE + first)), columns(width, same, first));
                    outside = s.or_i32(outside, s.f32_to_bits(s.select(own, zero, row)));
                    folded = s.select(own, row, folded);
                    same += width;
                }
                s.store(to.add(channel * LINE + first), folded);
            }
        }
        if s.all(s.eq(s.bits_to_f32(outside), zero)) { width } else { 0 }
    }
}

#[cfg(all(test, feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod tests {
    extern crate std;
    use super::super::narrow_kernel;
    use super::super::tests::Random;
    use super::*;
    use crate::cx::Cx;
    use crate::isa::Isa;
    use std::vec;

    /// The width that is found, and the folded weights.
    fn folded(isa: Isa, weights: &[f32]) -> Option<(usize, vec::Vec<f32>)> {
        Cx::with_isa(isa)?;
        let set = narrow_kernel::of(isa, LINE, LINE)?;
        let (taps, mut rows) = (weights.len() / (LINE * LINE), vec![f32::NAN; TAPS * WIDEST * LINE]);
        // SAFETY: the machine has the instruction set; there is room for the taps.
        let width = unsafe { (set.fold)(FoldArgs { w: weights.as_ptr(), taps, to: rows.as_mut_ptr() }) };
        rows.truncate(taps * width * LINE);
        Some((width, rows))
    }

    #[test]
    fn weights_of_groups_are_folded() {
        let mut r = Random(0x0f01_d5ea);
        for case in 0..40 {
            let (width, taps) = ([2, 4, 8, 16][case % 4], 1 + r.below(TAPS));
            let group = |at: usize| at / width;
            let mut weights = r.floats(taps * LINE * LINE);
            for (i, weight) in weights.iter_mut().enumerate() {
                if group(i / LINE % LINE) != group(i % LINE) {
                    *weight = if case % 3 == 0 { -0.0 } else { 0.0 };
                }
            }
            let mut between = weights.clone();
            // A single weight between groups, even in the last tap, and even NaN, is not left out.
            between[weights.len() - LINE] = if case % 2 == 0 { f32::NAN } else { f32::MIN_POSITIVE };
            for isa in [Isa::Avx2, Isa::Avx512] {
                let Some((found, rows)) = folded(isa, &weights) else { continue };
                assert_eq!(found, if width == LINE { 0 } else { width });
                for (i, got) in rows.iter().enumerate() {
                    let (tap, channel, column) = (i / LINE / width, i / LINE % width, i % LINE);
                    let same = group(column) * width + channel;
                    assert_eq!(*got, weights[(tap * LINE + same) * LINE + column]);
                }
                assert_eq!(folded(isa, &between).unwrap().0, 0);
            }
        }
    }
}
