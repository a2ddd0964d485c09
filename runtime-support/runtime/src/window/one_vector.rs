//! Sets of kernels that take a vector of channels at a time: one set for every width of vectors.

/// Instantiates the caller's `kernels!(name, token, columns, attribute)`, which makes a set, for every width, and defines
/// `of`, which finds the sets of an instruction set.
macro_rules! one_vector_sets {
    ($set:ty) => {
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        mod x86 {
            use super::*;
            use crate::isa::{avx2::Avx2, avx512::Avx512, sse2::Sse2};

            kernels!(
                AVX512_16,
                Avx512::new(),
                16,
                target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2")
            );
            kernels!(AVX2_8, Avx2::new(), 8, target_feature(enable = "avx2,fma"));
            kernels!(SSE2_4, Sse2::new(), 4, target_feature(enable = "sse2"));
        }

        #[cfg(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"))]
        mod arm {
            use super::*;
            use crate::isa::neon::Neon;

            kernels!(NEON_4, Neon, 4, inline(never));
        }

        #[cfg(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128"))]
        mod wasm {
            use super::*;
            use crate::isa::wasm128::Wasm128;

            kernels!(WASM_4, Wasm128, 4, inline(never));
        }

        /// The kernels of an instruction set, widest first; none without vectors, where code size counts.
        pub(super) fn of(isa: Isa) -> &'static [&'static $set] {
            match isa {
                #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
                Isa::Avx512 => const { &[&x86::AVX512_16, &x86::AVX2_8, &x86::SSE2_4] },
                #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
                Isa::Avx2 => const { &[&x86::AVX2_8, &x86::SSE2_4] },
                #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
                Isa::Sse2 => const { &[&x86::SSE2_4] },
                #[cfg(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"))]
                Isa::Neon => const { &[&arm::NEON_4] },
                #[cfg(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128"))]
                Isa::Wasm128 => const { &[&wasm::WASM_4] },
                _ => &[],
            }
        }
    };
}

pub(super) use one_vector_sets;
