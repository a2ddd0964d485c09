//! The kernels for lines of few columns that exist, per instruction set.
use super::super::fold::{self, FoldArgs};
use super::{NarrowArgs, NarrowSet, copy, fours, grouped, outputs, pairs};
use crate::isa::{Isa, avx2::Avx2, avx512::Avx512};

/// Instantiates `outputs`, and `grouped` for each stride: those of more outputs would keep pixels on the stack.
macro_rules! kernels {
    (
        $name:ident, $token:expr, $beats_tiles:literal, $eighths:literal, $tile:literal, $attribute:meta,
        whole: $($rows:literal)*; groups: $($one:literal)*, of every second pixel: $($two:literal)*
    ) => {
        static $name: NarrowSet = NarrowSet {
            beats_tiles: $beats_tiles,
            eighths: $eighths,
            of_tiles: $eighths,
            tile: $tile,
            whole: kernels!(@whole outputs, $token, $attribute, $($rows)*),
            groups: [
                &[$(($one, kernels!(@one grouped, $token, 1, $one, $attribute))),*],
                &[$(($two, kernels!(@one grouped, $token, 2, $two, $attribute))),*],
            ],
            fold: {
                /// # Safety
                /// As [`fold::FoldKernel`].
                #[$attribute]
                unsafe fn kernel(args: FoldArgs) -> usize {
                    // SAFETY: promised by the caller; this function has the target features.
                    unsafe { fold::fold($token, args) }
                }
                kernel
            },
            copy: {
                /// # Safety
                /// As [`super::NarrowCopy`].
                #[$attribute]
                unsafe fn kernel(args: &NarrowArgs<'_>, a: *const f32, pixels: usize, to: *mut f32) {
                    // SAFETY: promised by the caller; this function has the target features.
                    unsafe { copy($token, args, a, pixels, to) }
                }
                kernel
            },
        };
    };
    (@whole $function:path, $token:expr, $attribute:meta, $($rows:literal)*) => {
        [
            &[$(($rows, kernels!(@one $function, $token, 1, $rows, $attribute))),*],
            &[$(($rows, kernels!(@one $function, $token, 2, $rows, $attribute))),*],
        ]
    };
    (@one $function:path, $token:expr, $stride:literal, $rows:literal, $attribute:meta) => {{
        /// # Safety
        /// As [`super::NarrowKernel`].
        #[$attribute]
        unsafe fn kernel(args: &NarrowArgs<'_>, lines: &[*const f32]) {
            // SAFETY: promised by the caller; this function has the target features.
            unsafe {
                use $function as function;
                function::<_, $stride, $rows>($token, args, lines)
            }
        }
        kernel
    }};
}

kernels!(
    AVX512, Avx512::new(), true, 8, 10, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"),
    whole: 28 24 22 20 18 16 14 13 12 10 8 7 4; groups: 10 8 7 4, of every second pixel: 8 7 4
);

// Where the processor divides long vectors, those of half the length take half as long.
kernels!(
    AVX512_8, Avx2::new(), true, 6, 8, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"),
    whole: 16 14 13 12 10 8 7 4; groups:, of every second pixel:
);

/// Where shorter vectors take as long, two products at a time.
static AVX512_PAIRS: NarrowSet = NarrowSet {
    eighths: 5,
    whole: kernels!(
        @whole pairs::outputs, Avx512::new(), target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"),
        20 16 14 12 10 8 7 4
    ),
    groups: [&[], &[]],
    ..AVX512
};

/// The same of four more columns, of which a vector holds four products.
static AVX512_FOURS: NarrowSet = NarrowSet {
    eighths: 7,
    whole: kernels!(
        @whole fours::outputs, Avx512::new(), target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"),
        11 10 8 7 4
    ),
    ..AVX512
};

kernels!(
    AVX2, Avx2::new(), false, 8, 18, target_feature(enable = "avx2,fma"),
    whole: 10 7 4; groups: 7 8 4, of every second pixel: 7 8 4
);

/// The same for tiles of one vector instead of two.
static AVX2_8: NarrowSet = NarrowSet { tile: 11, ..AVX2 };

pub(super) fn of(isa: Isa, cols: usize, depth: usize) -> Option<&'static NarrowSet> {
    match isa {
        Isa::Avx512 if cols <= pairs::COLUMNS && isa.is_halved() => Some(&AVX512_8),
        Isa::Avx512 if cols <= pairs::COLUMNS => Some(&AVX512_PAIRS),
        Isa::Avx512 if cols <= fours::COLUMNS && fours::fill(depth) && !isa.is_halved() => Some(&AVX512_FOURS),
        Isa::Avx512 => Some(&AVX512),
        Isa::Avx2 if cols <= 8 => Some(&AVX2_8),
        Isa::Avx2 => Some(&AVX2),
        _ => None,
    }
}
