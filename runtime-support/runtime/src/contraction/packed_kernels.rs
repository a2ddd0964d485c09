//! The micro-kernels over packed rows that exist, per instruction set, widest first.
use super::packed_kernel::{PackedKernel, PackedSet, PackedTile, packed_tile, together};
use crate::isa::Isa;
use crate::isa::scalar::Scalar;

/// Instantiates `packed_tile` for 1.. rows: `kernels!(name, token, vectors, columns, attribute, rows...)`.
macro_rules! kernels {
    (
        $name:ident, $token:expr, $vectors:literal, $cols:literal, $attribute:meta,
        $($rows:literal)* $(; forming: $($forming:literal)*)?
    ) => {
        pub(super) static $name: PackedSet = {
            const KERNELS: &[PackedKernel] = &[$(kernels!(@one $token, $vectors, $attribute, $rows, false)),*];
            const FORMING: &[PackedKernel] = &[$($(kernels!(@one $token, $vectors, $attribute, $forming, true)),*)?];
            let least = together($cols / $vectors);
            PackedSet { cols: $cols, gain: 8, least, kernels: KERNELS, forming: FORMING }
        };
    };
    (@one $token:expr, $vectors:literal, $attribute:meta, $rows:literal, $forms:literal) => {{
        /// # Safety
        /// As [`PackedKernel`].
        #[$attribute]
        unsafe fn kernel(tile: &PackedTile<'_>) {
            // SAFETY: promised by the caller; this function has the target features.
            unsafe { packed_tile::<_, $rows, $vectors, $forms>($token, tile) }
        }
        kernel
    }};
}

kernels!(SCALAR_4, Scalar, 1, 4, inline(never), 1 2 3 4);

#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
mod x86 {
    use super::*;
    use crate::isa::{avx2::Avx2, avx512::Avx512, sse2::Sse2};

    // Three vectors take fewer instructions per product than two; nine rows of them all registers.
    kernels!(AVX512_48, Avx512::new(), 3, 48, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"), 1 2 3 4 5 6 7 8 9; forming: 5 6 7 8 9);
    kernels!(AVX512_32, Avx512::new(), 2, 32, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"), 1 2 3 4 5 6 7 8 9 10 11 12; forming: 8 9 10 11 12);
    // Where shorter vectors take as long as whole ones, a second pass must save one of those.
    pub(super) static AVX512_48_WHOLE: PackedSet = PackedSet { gain: 16, ..AVX512_48 };
    pub(super) static AVX512_32_WHOLE: PackedSet = PackedSet { gain: 16, ..AVX512_32 };
    kernels!(AVX512_16, Avx512::new(), 1, 16, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"), 1 2 3 4 5 6 7 8 9 10 11 12);
    // What is left: on processors that divide long vectors, half of one takes half the time.
    kernels!(AVX512_8, Avx2::new(), 1, 8, target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2"), 1 2 3 4 5 6 7 8 9 10 11 12);
    kernels!(AVX2_16, Avx2::new(), 2, 16, target_feature(enable = "avx2,fma"), 1 2 3 4 5 6);
    // For up to eight columns that are left: six sums wait for each other, but not as long as twelve would take.
    kernels!(AVX2_8, Avx2::new(), 1, 8, target_feature(enable = "avx2,fma"), 1 2 3 4 5 6);
    kernels!(SSE2_8, Sse2::new(), 2, 8, target_feature(enable = "sse2"), 1 2 3 4);
}

#[cfg(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"))]
mod arm {
    use super::*;
    use crate::isa::neon::Neon;

    kernels!(NEON_16, Neon, 4, 16, inline(never), 1 2 3 4 5 6);
}

#[cfg(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128"))]
mod wasm {
    use super::*;
    use crate::isa::wasm128::Wasm128;

    kernels!(WASM_8, Wasm128, 2, 8, inline(never), 1 2 3 4);
}

/// The kernels of an instruction set for panels of so many columns. All have the rows of the first one, and the narrowest is at
/// most 16 columns wide.
pub(crate) fn of(isa: Isa, panel: usize) -> &'static [&'static PackedSet] {
    match (isa, panel) {
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        (Isa::Avx512, _) => match (panel, isa.is_halved()) {
            (48, true) => const { &[&x86::AVX512_48, &x86::AVX512_32, &x86::AVX512_16, &x86::AVX512_8] },
            (_, true) => const { &[&x86::AVX512_32, &x86::AVX512_16, &x86::AVX512_8] },
            (48, false) => const { &[&x86::AVX512_48_WHOLE, &x86::AVX512_32_WHOLE, &x86::AVX512_16, &x86::AVX512_8] },
            (_, false) => const { &[&x86::AVX512_32_WHOLE, &x86::AVX512_16, &x86::AVX512_8] },
        },
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        (Isa::Avx2, _) => const { &[&x86::AVX2_16, &x86::AVX2_8] },
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        (Isa::Sse2, _) => const { &[&x86::SSE2_8] },
        #[cfg(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"))]
        (Isa::Neon, _) => const { &[&arm::NEON_16] },
        #[cfg(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128"))]
        (Isa::Wasm128, _) => const { &[&wasm::WASM_8] },
        _ => const { &[&SCALAR_4] },
    }
}

/// The kernels for the next columns, of which there are `left` and room for `width`.
pub(crate) fn suited<'s>(sets: &[&'s PackedSet], width: usize, left: usize) -> Option<&'s PackedSet> {
    let suited = sets.iter().find(|set| set.cols <= width && set.cols < left + set.gain);
    suited.or(sets.last().filter(|set| set.cols <= width)).copied()
}

/// Most rows of a tile.
pub(crate) fn most_rows(sets: &[&PackedSet]) -> usize {
    sets.first().map_or(1, |set| set.kernels.len())
}
