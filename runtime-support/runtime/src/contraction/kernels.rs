//! The micro-kernels that exist, per instruction set, widest first.
use super::kernel::{Args, Kernel, KernelSet, Kernels, tile};
use super::single::Single;
use super::strip::Strip;
#[allow(unused_imports, reason = "there are machines without vectors")]
use super::{
    single::single,
    strip::{StripArgs, strip},
};
use crate::isa::Isa;
use crate::isa::scalar::Scalar;

/// Instantiates `tile` for 1.. rows, `strip` for the last number of rows, and `single` for panels and vectors in all of them:
/// `kernels!(name, token, vectors, columns, attribute, left, most, strip, single, rows...)`.
macro_rules! kernels {
    (@strip none $($rest:tt)*) => { None };
    (@strip $rows:literal $token:expr, $vectors:literal, $attribute:meta) => {{
        /// # Safety
        /// As [`Strip`].
        #[$attribute]
        unsafe fn kernel(args: &StripArgs<'_>) {
            // SAFETY: promised by the caller; this function has the target features.
            unsafe { strip::<_, $rows, $vectors>($token, args) }
        }
        Some(kernel as Strip)
    }};
    (@single none $($rest:tt)*) => { None };
    (@single ($panels:literal $all:literal) $token:expr, $vectors:literal, $attribute:meta) => {{
        /// # Safety
        /// As [`Kernel`].
        #[$attribute]
        unsafe fn kernel(args: &Args<'_>) {
            // SAFETY: promised by the caller; this function has the target features.
            unsafe { single::<_, $vectors, $all>($token, args) }
        }
        Some(Single { panels: $panels, kernel })
    }};
    ($name:ident, $token:expr, $vectors:literal, $cols:literal, $attribute:meta, $left:expr, $most:expr, $strip:tt, $single:tt, $($rows:literal)*) => {
        pub(super) static $name: KernelSet = {
            const KERNELS: &[Kernel] = &[$({
                /// # Safety
                /// As [`Kernel`].
                #[$attribute]
                unsafe fn kernel(args: &Args<'_>) {
                    // SAFETY: promised by the caller; this function has the target features.
                    unsafe { tile::<_, $rows, $vectors>($token, args) }
                }
                kernel
            }),*];
            const STRIP: Option<Strip> = kernels!(@strip $strip $token, $vectors, $attribute);
            const SINGLE: Option<Single> = kernels!(@single $single $token, $vectors, $attribute);
            let lanes = $cols / $vectors;
            KernelSet { cols: $cols, lanes, left: $left, most: $most, kernels: KERNELS, strip: STRIP, single: SINGLE }
        };
    };
}

/// No limit to the rows.
const ANY: usize = usize::MAX;
/// No limit to the columns.
const ALL: (usize, usize) = (0, ANY);

kernels!(SCALAR_4, Scalar, 1, 4, inline(never), ALL, ANY, none, none, 1 2 3 4);

#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod x86 {
    use super::*;
    use crate::isa::sse2::{Fused128, Sse2};
    use crate::isa::{avx2::Avx2, avx512::Avx512};

    // What is left beside whole vectors takes shorter ones: half the time where a processor divides long vectors, else about as long.
    kernels!(AVX512_32, Avx512::new(), 2, 32, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"), (25, ANY), ANY, 12, (2 4), 1 2 3 4 5 6 7 8 9 10 11 12);
    /// The same where shorter vectors take as long.
    pub(super) static AVX512_32_WHOLE: KernelSet = KernelSet { left: (17, ANY), ..AVX512_32 };
    kernels!(AVX512_16, Avx512::new(), 1, 16, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"), (9, ANY), ANY, 12, none, 1 2 3 4 5 6 7 8 9 10 11 12);
    // A whole panel of weights is read once, in order. Three rows take all registers, and some memory: still less time than
    // weights that are read twice.
    kernels!(AVX2_32, Avx2::new(), 4, 32, target_feature(enable = "avx2,fma"), ALL, 3, none, (2 8), 1 2 3);
    kernels!(AVX2_24, Avx2::new(), 3, 24, target_feature(enable = "avx2,fma"), (17, 24), ANY, 3, none, 1 2 3);
    kernels!(AVX2_16, Avx2::new(), 2, 16, target_feature(enable = "avx2,fma"), (9, ANY), ANY, 6, none, 1 2 3 4 5 6);
    kernels!(AVX2_8, Avx2::new(), 1, 8, target_feature(enable = "avx2,fma"), ALL, ANY, 10, none, 1 2 3 4 5 6 7 8 9 10);
    kernels!(FUSED_4, Fused128::new(), 1, 4, target_feature(enable = "avx2,fma"), ALL, ANY, none, none, 1 2 3 4 5 6 7 8 9 10);
    kernels!(SSE2_8, Sse2::new(), 2, 8, target_feature(enable = "sse2"), (5, ANY), ANY, 4, none, 1 2 3 4);
    kernels!(SSE2_4, Sse2::new(), 1, 4, target_feature(enable = "sse2"), ALL, ANY, none, none, 1 2 3 4);
}

#[cfg(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"))]
mod arm {
    use super::*;
    use crate::isa::neon::Neon;

    kernels!(NEON_16, Neon, 4, 16, inline(never), (9, ANY), ANY, 6, none, 1 2 3 4 5 6);
    kernels!(NEON_8, Neon, 2, 8, inline(never), (5, ANY), ANY, 8, none, 1 2 3 4 5 6 7 8);
    kernels!(NEON_4, Neon, 1, 4, inline(never), ALL, ANY, none, none, 1 2 3 4 5 6 7 8);
}

#[cfg(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128"))]
mod wasm {
    use super::*;
    use crate::isa::wasm128::Wasm128;

    kernels!(WASM_8, Wasm128, 2, 8, inline(never), (5, ANY), ANY, 4, none, 1 2 3 4);
    kernels!(WASM_4, Wasm128, 1, 4, inline(never), ALL, ANY, none, none, 1 2 3 4);
}

/// The kernels of an instruction set; the narrowest is always 4 columns wide.
pub(crate) fn of(isa: Isa) -> Kernels {
    match isa {
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        Isa::Avx512 if isa.is_halved() => const { &[&x86::AVX512_32, &x86::AVX512_16, &x86::AVX2_8, &x86::FUSED_4] },
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        Isa::Avx512 => const { &[&x86::AVX512_32_WHOLE, &x86::AVX512_16, &x86::AVX2_8, &x86::FUSED_4] },
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        Isa::Avx2 => const { &[&x86::AVX2_32, &x86::AVX2_24, &x86::AVX2_16, &x86::AVX2_8, &x86::FUSED_4] },
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        Isa::Sse2 => const { &[&x86::SSE2_8, &x86::SSE2_4] },
        #[cfg(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"))]
        Isa::Neon => const { &[&arm::NEON_16, &arm::NEON_8, &arm::NEON_4] },
        #[cfg(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128"))]
        Isa::Wasm128 => const { &[&wasm::WASM_8, &wasm::WASM_4] },
        _ => const { &[&SCALAR_4] },
    }
}
