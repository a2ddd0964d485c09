//! The shapes of operations: how a row of `Simd`, or of an instruction set, becomes a function.

macro_rules! binary {
    ($($doc:literal $name:ident($v:ident $t:ty) = |$a:ident, $b:ident| $value:expr;)*) => { $(
        #[doc = $doc]
        #[inline(always)]
        fn $name(self, a: Self::$v, b: Self::$v) -> Self::$v {
            // SAFETY: by the trait's contract.
            unsafe { map2(Self::LANES, a, b, |$a: $t, $b: $t| $value) }
        }
    )* };
}
pub(super) use binary;

macro_rules! unary {
    ($($doc:literal $name:ident($v:ident $t:ty) = |$a:ident| $value:expr;)*) => { $(
        #[doc = $doc]
        #[inline(always)]
        fn $name(self, a: Self::$v) -> Self::$v {
            // SAFETY: by the trait's contract.
            unsafe { map1(Self::LANES, a, a, |$a: $t| -> $t { $value }) }
        }
    )* };
}
pub(super) use unary;

macro_rules! shift {
    ($($doc:literal $name:ident($v:ident $t:ty) = |$a:ident, $n:ident| $value:expr;)*) => { $(
        #[doc = $doc]
        #[inline(always)]
        fn $name(self, a: Self::$v, $n: u32) -> Self::$v {
            // SAFETY: by the trait's contract.
            unsafe { map1(Self::LANES, a, a, |$a: $t| -> $t { $value }) }
        }
    )* };
}
pub(super) use shift;

macro_rules! compare {
    ($($doc:literal $name:ident($v:ident $t:ty) = |$a:ident, $b:ident| $value:expr;)*) => { $(
        #[doc = $doc]
        #[inline(always)]
        fn $name(self, a: Self::$v, b: Self::$v) -> Self::Mask {
            // SAFETY: by the trait's contract.
            self.mask_from_bits(unsafe { bits2(Self::LANES, a, b, |$a: $t, $b: $t| $value) })
        }
    )* };
}
pub(super) use compare;

macro_rules! conversion {
    ($($doc:literal $name:ident($v:ident $t:ty) -> $r:ident = |$a:ident| $value:expr;)*) => { $(
        #[doc = $doc]
        #[inline(always)]
        fn $name(self, a: Self::$v) -> Self::$r {
            // SAFETY: by the trait's contract.
            unsafe { map1(Self::LANES, a, zero::<Self::$r>(), |$a: $t| $value) }
        }
    )* };
}
pub(super) use conversion;

macro_rules! horizontal {
    ($($doc:literal $name:ident($v:ident $t:ty) = $combine:expr;)*) => { $(
        #[doc = $doc]
        #[inline(always)]
        fn $name(self, a: Self::$v) -> $t {
            // SAFETY: by the trait's contract.
            unsafe { fold::<_, $t>(Self::LANES, a, $combine) }
        }
    )* };
}
pub(super) use horizontal;

macro_rules! selection {
    ($v:ident $t:ty: $name:ident) => {
        /// `a` where the mask is set, else `b`.
        #[inline(always)]
        fn $name(self, m: Self::Mask, a: Self::$v, b: Self::$v) -> Self::$v {
            // SAFETY: by the trait's contract.
            unsafe { select::<_, $t>(Self::LANES, self.mask_bits(m), a, b) }
        }
    };
}
pub(super) use selection;

macro_rules! memory {
    ($v:ident $t:ty: $splat:ident $load:ident $store:ident $load_partial:ident $store_partial:ident) => {
        /// All lanes `x`.
        #[inline(always)]
        fn $splat(self, x: $t) -> Self::$v {
            // SAFETY: by the trait's contract.
            unsafe { map1(Self::LANES, zero::<Self::$v>(), zero(), |_: $t| x) }
        }
        /// Reads `LANES` numbers.
        ///
        /// # Safety
        /// They are valid to read.
        #[inline(always)]
        unsafe fn $load(self, p: *const $t) -> Self::$v {
            // SAFETY: promised by the caller.
            unsafe { p.cast::<Self::$v>().read_unaligned() }
        }
        /// Writes `LANES` numbers.
        ///
        /// # Safety
        /// They are valid to write.
        #[inline(always)]
        unsafe fn $store(self, p: *mut $t, v: Self::$v) {
            // SAFETY: promised by the caller.
            unsafe { p.cast::<Self::$v>().write_unaligned(v) }
        }
        /// The first numbers of a slice, zeros behind its end.
        #[inline(always)]
        fn $load_partial(self, from: &[$t]) -> Self::$v {
            // SAFETY: no more than the slice has and the vector holds.
            unsafe { partial::<Self::$v, $t>(from.as_ptr(), from.len().min(Self::LANES)) }
        }
        /// Writes the first lanes to a slice, as many as fit.
        #[inline(always)]
        fn $store_partial(self, to: &mut [$t], v: Self::$v) {
            let n = to.len().min(Self::LANES);
            // SAFETY: n elements fit both.
            unsafe { core::ptr::copy_nonoverlapping((&raw const v).cast::<$t>(), to.as_mut_ptr(), n) }
        }
    };
}
pub(super) use memory;

/// Operations of an instruction set, one per line: `name(arguments) -> result = intrinsics;`.
#[allow(unused_macros, reason = "there are machines without vectors")]
macro_rules! operations {
    ($self:ident; $($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $body:expr;)*) => { $(
        #[inline(always)]
        // NEON and WebAssembly declare some of their operations safe.
        #[allow(unused_unsafe)]
        fn $name($self, $($argument: $type),*) $(-> $result)? {
            // SAFETY: the token proves the instruction set; memory is touched only inside of slices.
            unsafe { $body }
        }
    )* };
}
#[allow(unused_imports, reason = "there are machines without vectors")]
pub(crate) use operations;
