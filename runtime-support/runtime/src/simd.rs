//! `Simd`: the vector operations that kernels are written in, one token type per instruction set.

/// Vector operations of one instruction set. A value of the type proves that the machine has it.
pub(crate) trait Simd: Copy {
    /// `LANES` numbers.
    type F32: Copy;
    /// Numbers per vector.
    const LANES: usize;

    /// All lanes `x`.
    fn splat(self, x: f32) -> Self::F32;
    /// Reads `LANES` numbers.
    ///
    /// # Safety
    /// They are valid to read.
    unsafe fn load(self, p: *const f32) -> Self::F32;
    /// Writes `LANES` numbers.
    ///
    /// # Safety
    /// They are valid to write.
    unsafe fn store(self, p: *mut f32, v: Self::F32);
    /// Hints that the cache line at `p`, which may be anywhere, is needed soon.
    #[inline(always)]
    fn prefetch(self, p: *const f32) {
        let _ = p;
    }
    /// a + b
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a * b
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a * b + c, in one rounding where the instruction set has it.
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// The greater one; `b` if either is NaN.
    fn max(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The lesser one; `b` if either is NaN.
    fn min(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// a / b
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a` where it is NaN, else `b`.
    fn keep_nan(self, a: Self::F32, b: Self::F32) -> Self::F32;
}
