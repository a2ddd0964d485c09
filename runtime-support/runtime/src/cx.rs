//! The context that every step takes: which instruction set to run, and which threads help.
//!
//! A kernel that wants to run on several threads divides its result into parts, by rows, columns or batches and never along
//! a sum, and calls [`Cx::split`] with a closure that computes a range of them. That is all: parts must be so large that a
//! part takes a microsecond, [`Cx::parts`] tells how many are worth while. Which kernel computes an element, and in
//! which order it adds, must not depend on the division, so that results are the same bits for every number of threads.
use crate::isa::Isa;
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
use crate::isa::{avx2, avx512, sse2};
use crate::math::{floor_div_usize, floor_mod_usize};
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd::Simd;
use crate::simd::WithSimd;
#[cfg(feature = "threads")]
use crate::team::Team;
#[cfg(not(feature = "threads"))]
use core::marker::PhantomData;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};

/// Execution context of a step, passed by value. Holds proof that the machine supports its instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Cx<'t> {
    isa: Isa,
    back: bool,
    team: Helpers<'t>,
}

/// Who helps: nobody, without feature `threads`.
#[cfg(not(feature = "threads"))]
type Helpers<'t> = PhantomData<&'t ()>;
#[cfg(not(feature = "threads"))]
const ALONE: Helpers<'static> = PhantomData;
/// The team, if there is one.
#[cfg(feature = "threads")]
type Helpers<'t> = Option<&'t Team>;
#[cfg(feature = "threads")]
const ALONE: Helpers<'static> = None;

/// Parts per thread: threads that are late or disturbed leave theirs to others.
const PARTS: usize = 4;

#[cfg(feature = "threads")]
impl<'t> Cx<'t> {
    /// The same with a team to split steps among.
    #[must_use]
    pub fn with_team(self, team: &'t Team) -> Cx<'t> {
        Cx { team: Some(team), ..self }
    }
}

impl Cx<'_> {
    /// Threads among which steps are split; 1 without a team.
    #[inline(always)]
    #[must_use]
    pub fn threads(self) -> usize {
        #[cfg(feature = "threads")]
        return self.team.map_or(1, Team::threads);
        #[cfg(not(feature = "threads"))]
        1
    }

    /// The same without a team.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn alone(self) -> Self {
        Cx { isa: self.isa, back: self.back, team: ALONE }
    }

    /// The same in an iteration of a loop: every other one walks weights backwards. What does not fit a cache would else be
    /// gone whenever it is needed again; so the part that was used last is there.
    #[inline(always)]
    #[must_use]
    pub const fn in_iteration(self, iteration: usize) -> Self {
        Cx { back: iteration % 2 == 1, ..self }
    }

    /// Whether weights are walked backwards.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn is_back(self) -> bool {
        self.back
    }

    /// As many parts or some more, so that every thread gets as many where each of them has `outer` parts itself: two threads
    /// take as long for three parts as for four. Fewer than threads stay as they are.
    #[inline(always)]
    pub(crate) fn evenly(self, outer: usize, mut parts: usize) -> usize {
        let threads = self.threads();
        for _ in 1..threads {
            let all = outer.saturating_mul(parts);
            if all <= threads || floor_mod_usize(all, threads) == 0 {
                break;
            }
            parts += 1;
        }
        parts
    }

    /// Into how many parts a step is best divided that takes `work` of which `least` take a microsecond; 1 without a team.
    #[inline(always)]
    #[must_use]
    pub fn parts(self, work: usize, least: usize) -> usize {
        match self.threads() {
            1 => 1,
            threads => self.evenly(1, threads.saturating_mul(PARTS).min(floor_div_usize(work, least)).max(1)),
        }
    }

    /// Computes parts `0..parts`, each once: all at once without a team, else one by one on the threads that are free.
    ///
    /// `work` gets ranges of parts, at the same time on several threads; parts must not depend on each other. It may split
    /// again, but then it gets no help. Returns when everything is done.
    #[inline(always)]
    pub fn split(self, parts: usize, work: impl Fn(Range<usize>) + Sync) {
        #[cfg(feature = "threads")]
        if let Some(team) = self.team
            && parts > 1
            && team.run(parts, self.back, &|part| work(part..part + 1))
        {
            return;
        }
        work(0..parts);
    }

    /// The best instruction set of this machine.
    #[inline]
    #[must_use]
    pub fn detect() -> Self {
        Cx { isa: Isa::detect(), back: false, team: ALONE }
    }

    /// A chosen instruction set; `None` if this machine lacks it.
    #[must_use]
    pub fn with_isa(isa: Isa) -> Option<Self> {
        isa.is_available().then_some(Cx { isa, back: false, team: ALONE })
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
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
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
        #[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
        match self.isa {
            // SAFETY: a `Cx` exists only for an available instruction set.
            Isa::Avx512 => unsafe { enter_avx512(work_with(avx512::Avx512::new(), work)) },
            // SAFETY: as above.
            Isa::Avx2 => unsafe { enter_avx2(work_with(avx2::Avx2::new(), work)) },
            // Plain Rust has the same results on as many numbers at a time: no need to compile that as well.
            // SAFETY: every machine of this kind has SSE2.
            _ => work.run(unsafe { sse2::Sse2::new() }),
        }
        #[cfg(all(feature = "vectors", target_arch = "aarch64", target_feature = "neon"))]
        if self.isa == Isa::Neon {
            return work.run(crate::isa::neon::Neon);
        }
        #[cfg(all(feature = "vectors", target_arch = "wasm32", target_feature = "simd128"))]
        if self.isa == Isa::Wasm128 {
            return work.run(crate::isa::wasm128::Wasm128);
        }
        #[cfg(not(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2")))]
        work.run(crate::isa::scalar::Scalar)
    }
}

/// The work, bound to a token.
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
#[inline(always)]
fn work_with<S: Simd, K: WithSimd>(token: S, work: K) -> impl FnOnce() -> K::Output {
    #[inline(always)]
    move || work.run(token)
}

/// # Safety
/// The processor has the features.
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2,f16c,bmi1,bmi2")]
#[inline]
unsafe fn enter_avx512<T>(f: impl FnOnce() -> T) -> T {
    f()
}

/// # Safety
/// The processor has the features.
#[cfg(all(feature = "vectors", target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "avx2,fma,f16c")]
#[inline]
unsafe fn enter_avx2<T>(f: impl FnOnce() -> T) -> T {
    f()
}

/// A cached instruction set inside a model, and its team: 0 bytes until first used, so that a model is all zero bits.
#[derive(Debug, Default)]
pub struct IsaCell {
    isa: AtomicU8,
    /// `None` is all zero bits, as the standard library guarantees.
    #[cfg(feature = "threads")]
    team: Option<std::boxed::Box<Team>>,
}

impl IsaCell {
    /// Unknown.
    #[must_use]
    pub const fn new() -> Self {
        IsaCell {
            isa: AtomicU8::new(0),
            #[cfg(feature = "threads")]
            team: None,
        }
    }

    /// The cached context; detects on first use.
    #[inline]
    #[must_use]
    pub fn cx(&self) -> Cx<'static> {
        let isa = match Isa::from_byte(self.isa.load(Ordering::Relaxed)) {
            Some(isa) => isa,
            None => {
                let isa = Isa::detect();
                self.isa.store(isa as u8, Ordering::Relaxed);
                isa
            }
        };
        Cx { isa, back: false, team: ALONE }
    }

    /// The context of one run: the cached instruction set, on first use the best available one of `allowed` or, if that
    /// is empty, of all; and the team.
    #[inline]
    #[must_use]
    pub fn context(&self, allowed: &[Isa]) -> Cx<'_> {
        let cx = if allowed.is_empty() { self.cx() } else { self.cx_among(allowed) };
        #[cfg(feature = "threads")]
        return Cx { team: self.team.as_deref(), ..cx };
        #[cfg(not(feature = "threads"))]
        cx
    }

    /// Splits steps among a team from now on, or among nobody.
    #[cfg(feature = "threads")]
    pub fn set_team(&mut self, team: Option<Team>) {
        self.team = team.filter(|team| team.threads() > 1).map(std::boxed::Box::new);
    }

    /// The cached context; on first use the best available one of `allowed` (plain Rust if none is).
    #[must_use]
    pub fn cx_among(&self, allowed: &[Isa]) -> Cx<'static> {
        if self.isa.load(Ordering::Relaxed) == 0 {
            let best = allowed.iter().filter(|isa| isa.is_available()).max().copied().unwrap_or(Isa::Scalar);
            self.isa.store(best as u8, Ordering::Relaxed);
        }
        self.cx()
    }

    /// Forces an instruction set (tests, measurements); `false` if this machine lacks it.
    pub fn force(&self, isa: Isa) -> bool {
        let available = isa.is_available();
        if available {
            self.isa.store(isa as u8, Ordering::Relaxed);
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
        assert_eq!(cell.isa.load(Ordering::Relaxed), 0);
        assert_eq!(cell.cx().isa(), Isa::detect());
        assert!(cell.force(Isa::Scalar));
        assert_eq!(IsaCell::new().cx_among(&[Isa::Scalar]).isa(), Isa::Scalar);
        assert_eq!(IsaCell::new().cx_among(&[]).isa(), Isa::Scalar);
        assert_eq!(IsaCell::new().cx_among(&Isa::ALL).isa(), Isa::detect());
        assert_eq!(cell.cx().isa(), Isa::Scalar);
    }
}
