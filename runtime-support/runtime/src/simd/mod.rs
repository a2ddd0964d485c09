//! `Simd`: the vector operations that kernels are written in, one token type per instruction set.
//!
//! Contractions and windows use the `F32` operations, [`convert`] all others. Operations on `F32` have plain names, the
//! rest end in their type. Every operation is defined here, lane by lane; instruction sets override it where they have
//! an instruction, and a test compares each with the plain definition. Integers wrap, conversions are those of `as`.
pub mod convert;
mod define;
mod lanes;
#[cfg(test)]
mod tests;

#[allow(unused_imports, reason = "there are machines without vectors")]
pub(crate) use define::operations;
use define::{binary, compare, conversion, horizontal, memory, selection, shift, unary};
use lanes::{bits2, fold, from_halves, map1, map2, partial, select, zero};

/// Work that is written once and compiled for every instruction set; enter it with `Cx::dispatch`.
pub trait WithSimd {
    /// What it computes.
    type Output;
    /// The work. Mark it, and everything it calls, `#[inline(always)]`: target features do not cross a call.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

/// A vector of the first numbers from an address: `left` of them, or all its lanes if there are as many.
///
/// # Safety
/// `left` numbers from `from` on are valid.
#[inline(always)]
pub(crate) unsafe fn load_first<S: Simd>(s: S, from: *const f32, left: usize) -> S::F32 {
    // SAFETY: promised by the caller.
    unsafe { if left >= S::LANES { s.load(from) } else { s.load_partial(core::slice::from_raw_parts(from, left)) } }
}

/// Stores the first numbers of a vector: `left` of them, or all if there is room.
///
/// # Safety
/// `left` numbers from `to` on are valid and borrowed exclusively.
#[inline(always)]
pub(crate) unsafe fn store_first<S: Simd>(s: S, to: *mut f32, left: usize, v: S::F32) {
    // SAFETY: promised by the caller.
    unsafe {
        if left >= S::LANES {
            s.store(to, v);
        } else {
            s.store_partial(core::slice::from_raw_parts_mut(to, left), v);
        }
    }
}

/// Vector operations of one instruction set. A value of the type proves that the machine has it.
///
/// # Safety
/// `F32`, `I32`, `I64` and `U8` are plain data of exactly `LANES` elements in order; `LANES` is a power of two up to 16.
pub unsafe trait Simd: Copy {
    /// `LANES` numbers.
    type F32: Copy;
    /// `LANES` numbers.
    type I32: Copy;
    /// `LANES` numbers.
    type I64: Copy;
    /// `LANES` bytes.
    type U8: Copy;
    /// A yes or no per lane.
    type Mask: Copy;
    /// Numbers per vector.
    const LANES: usize;

    /// Runs `work` in a function of its own where vectors are wide: what kernels seldom need, compiled once for all of them.
    #[inline(always)]
    fn apart<K: WithSimd>(self, work: K) -> K::Output {
        work.run(self)
    }

    /// Lane i is set exactly if bit i is.
    fn mask_from_bits(self, bits: u32) -> Self::Mask;
    /// Bit i is set exactly if lane i is; higher bits are 0.
    fn mask_bits(self, m: Self::Mask) -> u32;
    /// The first `n` lanes.
    #[inline(always)]
    fn mask_first(self, n: usize) -> Self::Mask {
        self.mask_from_bits((1u32 << n.min(Self::LANES)) - 1)
    }
    /// a and b
    #[inline(always)]
    fn mask_and(self, a: Self::Mask, b: Self::Mask) -> Self::Mask {
        self.mask_from_bits(self.mask_bits(a) & self.mask_bits(b))
    }
    /// a or b
    #[inline(always)]
    fn mask_or(self, a: Self::Mask, b: Self::Mask) -> Self::Mask {
        self.mask_from_bits(self.mask_bits(a) | self.mask_bits(b))
    }
    /// not a
    #[inline(always)]
    fn mask_not(self, a: Self::Mask) -> Self::Mask {
        self.mask_from_bits(!self.mask_bits(a) & ((1u32 << Self::LANES) - 1))
    }
    /// Whether any lane is set.
    #[inline(always)]
    fn any(self, m: Self::Mask) -> bool {
        self.mask_bits(m) != 0
    }
    /// Whether all lanes are set.
    #[inline(always)]
    fn all(self, m: Self::Mask) -> bool {
        self.mask_bits(m).count_ones() as usize == Self::LANES
    }

    /// Lane i is lane `index[i]` of `table`, modulo their number.
    #[inline(always)]
    fn lookup(self, table: Self::F32, index: Self::I32) -> Self::F32 {
        // SAFETY: the vectors are `LANES` elements each.
        unsafe { lanes::lookup((Self::LANES, Self::LANES), table, index) }
    }
    /// Lane i is lane `index[i]` of the four lanes of `table` that i is one of, modulo their number.
    #[inline(always)]
    fn lookup_in_fours(self, table: Self::F32, index: Self::I32) -> Self::F32 {
        // SAFETY: the vectors are `LANES` elements each.
        unsafe { lanes::lookup((Self::LANES, Self::LANES.min(4)), table, index) }
    }

    /// Lane i is lane `index[i]` of `a` and `b`, counted on from the one to the other.
    #[inline(always)]
    fn lookup_in_two(self, a: Self::F32, b: Self::F32, index: Self::I32) -> Self::F32 {
        let in_a = self.lt_i32(index, self.splat_i32(Self::LANES as i32));
        self.select(in_a, self.lookup(a, index), self.lookup(b, index))
    }

    /// Lane j of vector i is lane i of vector j, for as many vectors as lanes.
    #[inline(always)]
    fn turned(self, x: [Self::F32; 16]) -> [Self::F32; 16] {
        // SAFETY: the vectors are `LANES` elements each.
        unsafe { lanes::turned(Self::LANES, x) }
    }

    /// Hints that the cache line at `p`, which may be anywhere, is needed soon.
    #[inline(always)]
    fn prefetch(self, p: *const f32) {
        let _ = p;
    }
    /// The same for later: the line need not come nearer than the second-level cache.
    #[inline(always)]
    fn prefetch_far(self, p: *const f32) {
        let _ = p;
    }

    // f32
    memory! { F32 f32: splat load store load_partial store_partial }
    /// Lane i is number `i % 2` from an address.
    ///
    /// # Safety
    /// Two numbers there are valid to read.
    #[inline(always)]
    unsafe fn splat_two(self, p: *const f32) -> Self::F32 {
        let odd = self.mask_from_bits(0xaaaa & ((1u32 << Self::LANES) - 1));
        // SAFETY: promised by the caller.
        unsafe { self.select(odd, self.splat(*p.add(1)), self.splat(*p)) }
    }
    /// Lane i is number `i % 4` from an address.
    ///
    /// # Safety
    /// Four numbers there are valid to read.
    #[inline(always)]
    unsafe fn splat_four(self, p: *const f32) -> Self::F32 {
        // SAFETY: promised by the caller; the vectors are `LANES` elements each.
        unsafe {
            self.lookup(self.load_partial(core::slice::from_raw_parts(p, 4)), self.load_i32(lanes::FOURS.as_ptr()))
        }
    }
    binary! {
        "a + b" add(F32 f32) = |a, b| a + b;
        "a - b" sub(F32 f32) = |a, b| a - b;
        "a * b" mul(F32 f32) = |a, b| a * b;
        "a / b" div(F32 f32) = |a, b| a / b;
    }
    /// a * b + c, in one rounding where the instruction set has it.
    #[inline(always)]
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        self.add(self.mul(a, b), c)
    }
    /// a * 2^n for whole numbers n from -252 to 254: in two factors that are normal, so that only the second one rounds.
    #[inline(always)]
    fn scale(self, a: Self::F32, n: Self::F32) -> Self::F32 {
        // 1.5 * 2^23: adding it brings the number to the low bits.
        let shift = 12_582_912.0f32;
        let n = self.sub_i32(self.f32_to_bits(self.add(n, self.splat(shift))), self.splat_i32(shift.to_bits() as i32));
        let (half, bias) = (self.shr_i32(n, 1), self.splat_i32(127));
        let first = self.bits_to_f32(self.shl_i32(self.add_i32(half, bias), 23));
        let second = self.bits_to_f32(self.shl_i32(self.add_i32(self.sub_i32(n, half), bias), 23));
        self.mul(self.mul(a, first), second)
    }
    binary! {
        "The greater one; `b` if either is NaN." max(F32 f32) = |a, b| if a > b { a } else { b };
        "The lesser one; `b` if either is NaN." min(F32 f32) = |a, b| if a < b { a } else { b };
        "`a` where it is NaN, else `b`." keep_nan(F32 f32) = |a, b| if a.is_nan() { a } else { b };
    }
    unary! {
        "Absolute value." abs(F32 f32) = |a| f32::from_bits(a.to_bits() & 0x7fff_ffff);
        "Square root." sqrt(F32 f32) = |a| crate::math::sqrt(a);
        "The greatest integer not above." floor(F32 f32) = |a| crate::math::floor(a);
        "The nearest integer, halves to even." round_half_even(F32 f32) = |a| crate::math::round_half_even(a);
    }
    compare! {
        "a == b" eq(F32 f32) = |a, b| a == b;
        "a < b" lt(F32 f32) = |a, b| a < b;
        "a <= b" le(F32 f32) = |a, b| a <= b;
    }
    selection! { F32 f32: select }
    horizontal! {
        "Sum of the lanes, halves first." sum(F32 f32) = |a: f32, b| a + b;
        "The greatest lane; NaN is kept." greatest(F32 f32) = crate::math::max;
    }

    /// Reads `LANES` 16-bit floats.
    ///
    /// # Safety
    /// They are valid to read.
    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> Self::F32 {
        // SAFETY: promised by the caller.
        unsafe { from_halves(Self::LANES, p, zero::<Self::F32>()) }
    }

    // i32
    memory! { I32 i32: splat_i32 load_i32 store_i32 load_partial_i32 store_partial_i32 }
    binary! {
        "a + b, wrapping." add_i32(I32 i32) = |a, b| a.wrapping_add(b);
        "a - b, wrapping." sub_i32(I32 i32) = |a, b| a.wrapping_sub(b);
        "a * b, wrapping." mul_i32(I32 i32) = |a, b| a.wrapping_mul(b);
        "The greater one." max_i32(I32 i32) = |a, b| a.max(b);
        "The lesser one." min_i32(I32 i32) = |a, b| a.min(b);
        "a & b" and_i32(I32 i32) = |a, b| a & b;
        "a | b" or_i32(I32 i32) = |a, b| a | b;
        "a ^ b" xor_i32(I32 i32) = |a, b| a ^ b;
    }
    shift! {
        "a << n, n modulo the width." shl_i32(I32 i32) = |a, n| a.wrapping_shl(n);
        "a >> n with the sign, n modulo the width." shr_i32(I32 i32) = |a, n| a.wrapping_shr(n);
        "a >> n with zeros, n modulo the width." shr_logical_i32(I32 i32) = |a, n| (a as u32).wrapping_shr(n) as i32;
    }
    compare! {
        "a == b" eq_i32(I32 i32) = |a, b| a == b;
        "a < b" lt_i32(I32 i32) = |a, b| a < b;
    }
    selection! { I32 i32: select_i32 }
    horizontal! {
        "Sum of the lanes, wrapping." sum_i32(I32 i32) = i32::wrapping_add;
        "The greatest lane." greatest_i32(I32 i32) = i32::max;
    }

    // i64
    memory! { I64 i64: splat_i64 load_i64 store_i64 load_partial_i64 store_partial_i64 }
    binary! {
        "a + b, wrapping." add_i64(I64 i64) = |a, b| a.wrapping_add(b);
        "a - b, wrapping." sub_i64(I64 i64) = |a, b| a.wrapping_sub(b);
        "a * b, wrapping." mul_i64(I64 i64) = |a, b| a.wrapping_mul(b);
        "The greater one." max_i64(I64 i64) = |a, b| a.max(b);
        "The lesser one." min_i64(I64 i64) = |a, b| a.min(b);
        "a & b" and_i64(I64 i64) = |a, b| a & b;
        "a | b" or_i64(I64 i64) = |a, b| a | b;
        "a ^ b" xor_i64(I64 i64) = |a, b| a ^ b;
    }
    shift! {
        "a << n, n modulo the width." shl_i64(I64 i64) = |a, n| a.wrapping_shl(n);
        "a >> n with the sign, n modulo the width." shr_i64(I64 i64) = |a, n| a.wrapping_shr(n);
        "a >> n with zeros, n modulo the width." shr_logical_i64(I64 i64) = |a, n| (a as u64).wrapping_shr(n) as i64;
    }
    compare! {
        "a == b" eq_i64(I64 i64) = |a, b| a == b;
        "a < b" lt_i64(I64 i64) = |a, b| a < b;
    }
    selection! { I64 i64: select_i64 }
    horizontal! {
        "Sum of the lanes, wrapping." sum_i64(I64 i64) = i64::wrapping_add;
        "The greatest lane." greatest_i64(I64 i64) = i64::max;
    }

    // u8
    memory! { U8 u8: splat_u8 load_u8 store_u8 load_partial_u8 store_partial_u8 }
    binary! {
        "a + b, wrapping." add_u8(U8 u8) = |a, b| a.wrapping_add(b);
        "a - b, wrapping." sub_u8(U8 u8) = |a, b| a.wrapping_sub(b);
        "The greater one." max_u8(U8 u8) = |a, b| a.max(b);
        "The lesser one." min_u8(U8 u8) = |a, b| a.min(b);
        "a & b" and_u8(U8 u8) = |a, b| a & b;
        "a | b" or_u8(U8 u8) = |a, b| a | b;
        "a ^ b" xor_u8(U8 u8) = |a, b| a ^ b;
    }
    compare! {
        "a == b" eq_u8(U8 u8) = |a, b| a == b;
        "a < b" lt_u8(U8 u8) = |a, b| a < b;
    }
    selection! { U8 u8: select_u8 }
    /// Sum of the lanes.
    #[inline(always)]
    fn sum_u8(self, a: Self::U8) -> u32 {
        self.sum_i32(self.u8_to_i32(a)) as u32
    }
    horizontal! {
        "The greatest lane." greatest_u8(U8 u8) = u8::max;
    }

    // Conversions.
    conversion! {
        "Nearest number." i32_to_f32(I32 i32) -> F32 = |a| a as f32;
        "Towards zero, saturating; NaN gives 0." f32_to_i32(F32 f32) -> I32 = |a| a as i32;
        "The bits of the numbers." f32_to_bits(F32 f32) -> I32 = |a| a.to_bits() as i32;
        "The numbers with these bits." bits_to_f32(I32 i32) -> F32 = |a| f32::from_bits(a as u32);
        "The same numbers." i32_to_i64(I32 i32) -> I64 = |a| i64::from(a);
        "The low 32 bits." i64_to_i32(I64 i64) -> I32 = |a| a as i32;
        "The same numbers." u8_to_i32(U8 u8) -> I32 = |a| i32::from(a);
        "The nearest number from 0 to 255." i32_to_u8(I32 i32) -> U8 = |a| a.clamp(0, 255) as u8;
    }
}
