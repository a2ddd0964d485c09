//! The context that every step takes: which instruction set to run.
use crate::isa::Isa;
use crate::isa::scalar::Scalar;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::isa::{avx2, avx512, sse2};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd::Simd;
use crate::simd::WithSimd;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU8, Ordering};

/// Execution context of a step, passed by value. Holds proof that the machine supports its instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'t> {
    isa: Isa,
    team: PhantomData<&'t ()>,
}

impl Cx<'_> {
    /// The best instruction set of this machine.
    #[inline]
    #[must_use]
    pub fn detect() -> Self {
        Cx { isa: Isa::detect(), team: PhantomData }
    }

    /// A chosen instruction set; `None` if this machine lacks it.
    #[must_use]
    pub fn with_isa(isa: Isa) -> Option<Self> {
        isa.is_available().then_some(Cx { isa, team: PhantomData })
    }

    /// The instruction set of this context.
    #[inline(always)]
    #[must_use]
    pub const fn isa(self) -> Isa {
        self.isa
    }

    /// Runs `f` compiled for the context's instruction set.
    ///
    /// `f` and everything it calls must be `#[inline(always)]`: target features do not cross a call.
    #[inline(always)]
    pub fn vectorize<T>(self, f: impl FnOnce() -> T) -> T {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        match self.isa {
            // SAFETY: a `Cx` exists only for an available instruction set.
            Isa::Avx512 => return unsafe { enter_avx512(f) },
            // SAFETY: as above.
            Isa::Avx2 => return unsafe { enter_avx2(f) },
            _ => {}
        }
        f()
    }

    /// Runs `work` with the vectors of the context's instruction set.
    #[inline(always)]
    pub fn dispatch<K: WithSimd>(self, work: K) -> K::Output {
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        match self.isa {
            // SAFETY: a `Cx` exists only for an available instruction set.
            Isa::Avx512 => return unsafe { enter_avx512(work_with(avx512::Avx512::new(), work)) },
            // SAFETY: as above.
            Isa::Avx2 => return unsafe { enter_avx2(work_with(avx2::Avx2::new(), work)) },
            // SAFETY: as above.
            Isa::Sse2 => return work.run(unsafe { sse2::Sse2::new() }),
            _ => {}
        }
        #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
        if self.isa == Isa::Neon {
            return work.run(crate::isa::neon::Neon);
        }
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        if self.isa == Isa::Wasm128 {
            return work.run(crate::isa::wasm128::Wasm128);
        }
        work.run(Scalar)
    }
}

/// The work, bound to a token.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline(always)]
fn work_with<S: Simd, K: WithSimd>(token: S, work: K) -> impl FnOnce() -> K::Output {
    #[inline(always)]
    move || work.run(token)
}

/// # Safety
/// The processor has the features.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2,f16c,bmi1,bmi2")]
#[inline]
unsafe fn enter_avx512<T>(f: impl FnOnce() -> T) -> T {
    f()
}

/// # Safety
/// The processor has the features.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn enter_avx2<T>(f: impl FnOnce() -> T) -> T {
    f()
}

/// A cached instruction set inside a model: 0 bytes until first used, so that a model is all zero bits.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct IsaCell(AtomicU8);

impl IsaCell {
    /// Unknown.
    #[must_use]
    pub const fn new() -> Self {
        IsaCell(AtomicU8::new(0))
    }

    /// The cached context; detects on first use.
    #[inline]
    #[must_use]
    pub fn cx(&self) -> Cx<'static> {
        let isa = match Isa::from_byte(self.0.load(Ordering::Relaxed)) {
            Some(isa) => isa,
            None => {
                let isa = Isa::detect();
                self.0.store(isa as u8, Ordering::Relaxed);
                isa
            }
        };
        Cx { isa, team: PhantomData }
    }

    /// The cached context; on first use the best available one of `allowed` (plain Rust if none is).
    #[must_use]
    pub fn cx_among(&self, allowed: &[Isa]) -> Cx<'static> {
        if self.0.load(Ordering::Relaxed) == 0 {
            let best = allowed.iter().filter(|isa| isa.is_available()).max().copied().unwrap_or(Isa::Scalar);
            self.0.store(best as u8, Ordering::Relaxed);
        }
        self.cx()
    }

    /// Forces an instruction set (tests, measurements); `false` if this machine lacks it.
    pub fn force(&self, isa: Isa) -> bool {
        let available = isa.is_available();
        if available {
            self.0.store(isa as u8, Ordering::Relaxed);
        }
        available
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_available_isa_runs_the_closure() {
        for cx in Isa::ALL.into_iter().filter_map(Cx::with_isa) {
            let mut y = [0.0f32; 37];
            cx.vectorize(
                #[inline(always)]
                || {
                    for (i, y) in y.iter_mut().enumerate() {
                        *y = i as f32 * 2.0;
                    }
                },
            );
            assert!(y.iter().enumerate().all(|(i, y)| *y == i as f32 * 2.0), "{:?}", cx.isa());
        }
    }

    #[test]
    fn the_cell_starts_as_zero_and_caches() {
        let cell = IsaCell::new();
        assert_eq!(cell.0.load(Ordering::Relaxed), 0);
        assert_eq!(cell.cx().isa(), Isa::detect());
        assert!(cell.force(Isa::Scalar));
        assert_eq!(IsaCell::new().cx_among(&[Isa::Scalar]).isa(), Isa::Scalar);
        assert_eq!(IsaCell::new().cx_among(&[]).isa(), Isa::Scalar);
        assert_eq!(IsaCell::new().cx_among(&Isa::ALL).isa(), Isa::detect());
        assert_eq!(cell.cx().isa(), Isa::Scalar);
    }
}
