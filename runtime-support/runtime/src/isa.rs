//! Instruction sets: names, and detection that is cached because CPUID costs microseconds in virtual machines.
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) mod avx2;
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) mod avx512;
#[cfg(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"))]
pub(crate) mod neon;
pub(crate) mod scalar;
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) mod sse2;
#[cfg(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) mod wasm128;

#[cfg(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")))]
pub(crate) use scalar::transposed;
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) use sse2::transposed;

use core::sync::atomic::{AtomicU8, Ordering};

/// Whether kernels are compiled for any instruction set with vectors; else code size counts, and what only saves time is
/// left out.
pub(crate) const VECTORS: bool = cfg!(any(
    all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"),
    all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"),
    all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128")
));

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// Plain Rust, any target.
    Scalar = 1,
    /// x86-64 baseline, 128 bits.
    Sse2 = 2,
    /// AVX2 with FMA and F16C, 256 bits.
    Avx2 = 3,
    /// AVX-512 F, VL, BW, DQ, 512 bits.
    Avx512 = 4,
    /// AArch64 baseline, 128 bits.
    Neon = 5,
    /// WebAssembly `simd128`.
    Wasm128 = 6,
}

impl Isa {
    /// Every instruction set, weakest first within a family.
    pub const ALL: [Isa; 6] = [Isa::Scalar, Isa::Sse2, Isa::Avx2, Isa::Avx512, Isa::Neon, Isa::Wasm128];

    /// The best instruction set of this machine; detected once.
    #[inline]
    #[must_use]
    pub fn detect() -> Isa {
        static CACHE: AtomicU8 = AtomicU8::new(0);
        match Isa::from_byte(CACHE.load(Ordering::Relaxed)) {
            Some(isa) => isa,
            None => {
                let isa = best();
                CACHE.store(isa as u8, Ordering::Relaxed);
                isa
            }
        }
    }

    /// Whether this machine computes a vector of this instruction set in two halves, one after the other: one of half the
    /// length takes half the time.
    #[inline]
    #[must_use]
    pub(crate) fn is_halved(self) -> bool {
        static CACHE: AtomicU8 = AtomicU8::new(0);
        if self != Isa::Avx512 {
            return false;
        }
        match CACHE.load(Ordering::Relaxed) {
            0 => {
                let halved = halves_vectors();
                CACHE.store(1 + u8::from(halved), Ordering::Relaxed);
                halved
            }
            known => known == 2,
        }
    }

    /// Whether this machine runs code compiled for `self`.
    #[must_use]
    pub fn is_available(self) -> bool {
        let best = Isa::detect();
        match self {
            Isa::Scalar => true,
            Isa::Sse2 | Isa::Avx2 | Isa::Avx512 => cfg!(target_arch = "x86_64") && self <= best,
            Isa::Neon | Isa::Wasm128 => self == best,
        }
    }

    /// The instruction set with this discriminant; `None` for 0 (unknown) and anything else.
    #[inline]
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Isa> {
        match byte {
            1 => Some(Isa::Scalar),
            2 => Some(Isa::Sse2),
            3 => Some(Isa::Avx2),
            4 => Some(Isa::Avx512),
            5 => Some(Isa::Neon),
            6 => Some(Isa::Wasm128),
            _ => None,
        }
    }

    /// Lower-case name as used on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Sse2 => "sse2",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Neon => "neon",
            Isa::Wasm128 => "wasm128",
        }
    }
}

#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
fn best() -> Isa {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    let bit = |word: u32, n: u32| word >> n & 1 == 1;
    if __cpuid(0).eax < 7 {
        return Isa::Sse2;
    }
    let (one, seven) = (__cpuid(1), __cpuid_count(7, 0));
    let (fma, xsave, osxsave, avx, f16c) =
        (bit(one.ecx, 12), bit(one.ecx, 26), bit(one.ecx, 27), bit(one.ecx, 28), bit(one.ecx, 29));
    if !(xsave && osxsave && avx && fma && f16c && bit(seven.ebx, 5)) {
        return Isa::Sse2;
    }
    // SAFETY: OSXSAVE says that XGETBV is enabled.
    let saved = unsafe { xgetbv() };
    // The operating system must save the registers: bits 1, 2 = xmm, ymm; 5..8 = mask registers and zmm.
    if saved & 0b110 != 0b110 {
        return Isa::Sse2;
    }
    let avx512 = bit(seven.ebx, 16) && bit(seven.ebx, 17) && bit(seven.ebx, 30) && bit(seven.ebx, 31);
    if avx512 && saved & 0b1110_0000 == 0b1110_0000 { Isa::Avx512 } else { Isa::Avx2 }
}

/// Whether vectors of 512 bits are computed in two halves: by Zen 4, AMD's family 19h. All others count as having units for
/// whole ones, even if some have not.
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
fn halves_vectors() -> bool {
    use core::arch::x86_64::__cpuid;
    /// The second word of the vendor's name, `AuthenticAMD`.
    const AMD: u32 = u32::from_le_bytes(*b"enti");
    let one = __cpuid(1).eax;
    let (family, extended) = (one >> 8 & 0xf, one >> 20 & 0xff);
    __cpuid(0).edx == AMD && family + extended == 0x19
}

#[cfg(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")))]
fn halves_vectors() -> bool {
    false
}

/// Extended control register 0: which register files the operating system saves.
///
/// # Safety
/// The processor supports XGETBV (OSXSAVE set).
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "xsave")]
unsafe fn xgetbv() -> u64 {
    // SAFETY: promised by the caller.
    unsafe { core::arch::x86_64::_xgetbv(0) }
}

#[cfg(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")))]
fn best() -> Isa {
    if cfg!(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon")) {
        Isa::Neon
    } else if cfg!(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128")) {
        Isa::Wasm128
    } else {
        Isa::Scalar
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(feature = "vectors", target_arch = "x86_64"))]
    fn agrees_with_the_standard_library() {
        extern crate std;
        let avx512 = std::is_x86_feature_detected!("avx512f")
            && std::is_x86_feature_detected!("avx512vl")
            && std::is_x86_feature_detected!("avx512bw")
            && std::is_x86_feature_detected!("avx512dq");
        let avx2 = std::is_x86_feature_detected!("avx2")
            && std::is_x86_feature_detected!("fma")
            && std::is_x86_feature_detected!("f16c");
        let want = match (avx512, avx2) {
            (true, true) => Isa::Avx512,
            (_, true) => Isa::Avx2,
            _ => Isa::Sse2,
        };
        assert_eq!(Isa::detect(), want);
        assert!(Isa::Scalar.is_available() && Isa::Sse2.is_available() && !Isa::Neon.is_available());
    }

    #[test]
    fn only_long_vectors_are_halved() {
        assert!(Isa::ALL.into_iter().all(|isa| isa == Isa::Avx512 || !isa.is_halved()));
        assert_eq!(Isa::Avx512.is_halved(), halves_vectors());
        assert_eq!(Isa::Avx512.is_halved(), halves_vectors(), "remembered");
    }

    #[test]
    #[cfg(all(feature = "vectors", target_arch = "x86_64", target_os = "linux"))]
    fn agrees_with_the_kernel_about_the_processor() {
        extern crate std;
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let field = |name: &str| info.lines().find(|line| line.starts_with(name)).unwrap().split(": ").nth(1).unwrap();
        let zen_4 = field("vendor_id") == "AuthenticAMD" && field("cpu family") == "25";
        assert_eq!(halves_vectors(), zen_4, "{} {}", field("vendor_id"), field("cpu family"));
    }

    #[test]
    fn bytes_round_trip() {
        for isa in Isa::ALL {
            assert_eq!(Isa::from_byte(isa as u8), Some(isa));
        }
        assert_eq!(Isa::from_byte(0), None);
    }
}
