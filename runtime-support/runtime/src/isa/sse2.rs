//! 128 bits: the x86-64 baseline, and with fused multiply-adds what kernels for longer vectors leave.
use crate::simd::{Simd, operations};
use core::arch::x86_64::*;

/// 128 bits, with fused multiply-adds or without. Made only where the machine has it.
#[derive(Clone, Copy)]
pub(crate) struct Bits128<const FUSED: bool>(());

/// The baseline.
pub(crate) type Sse2 = Bits128<false>;
/// As AVX2 has it.
pub(crate) type Fused128 = Bits128<true>;

impl<const FUSED: bool> Bits128<FUSED> {
    /// # Safety
    /// The machine has the instruction set, FMA too if multiply-adds are fused, and the caller is compiled for it.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Bits128(())
    }
}

// SAFETY: the vectors are plain data of exactly that many elements.
unsafe impl<const FUSED: bool> Simd for Bits128<FUSED> {
    type F32 = __m128;
    type I32 = __m128i;
    type I64 = [__m128i; 2];
    type U8 = u32;
    type Mask = __m128i;
    const LANES: usize = 4;

    operations! { self;
        mask_from_bits(bits: u32) -> Self::Mask = {
            let bit = _mm_setr_epi32(1, 2, 4, 8);
            _mm_cmpeq_epi32(_mm_and_si128(_mm_set1_epi32(bits as i32), bit), bit)
        };
        mask_bits(m: Self::Mask) -> u32 = _mm_movemask_ps(_mm_castsi128_ps(m)) as u32;
        mask_and(a: Self::Mask, b: Self::Mask) -> Self::Mask = _mm_and_si128(a, b);
        mask_or(a: Self::Mask, b: Self::Mask) -> Self::Mask = _mm_or_si128(a, b);
        mask_not(a: Self::Mask) -> Self::Mask = _mm_xor_si128(a, _mm_set1_epi32(-1));
        splat(x: f32) -> Self::F32 = _mm_set1_ps(x);
        add(a: Self::F32, b: Self::F32) -> Self::F32 = _mm_add_ps(a, b);
        sub(a: Self::F32, b: Self::F32) -> Self::F32 = _mm_sub_ps(a, b);
        mul(a: Self::F32, b: Self::F32) -> Self::F32 = _mm_mul_ps(a, b);
        div(a: Self::F32, b: Self::F32) -> Self::F32 = _mm_div_ps(a, b);
        max(a: Self::F32, b: Self::F32) -> Self::F32 = _mm_max_ps(a, b);
        min(a: Self::F32, b: Self::F32) -> Self::F32 = _mm_min_ps(a, b);
        sqrt(a: Self::F32) -> Self::F32 = _mm_sqrt_ps(a);
        mul_add(a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 = match FUSED {
            true => _mm_fmadd_ps(a, b, c),
            false => _mm_add_ps(_mm_mul_ps(a, b), c),
        };
        abs(a: Self::F32) -> Self::F32 = _mm_andnot_ps(_mm_set1_ps(-0.0), a);
        eq(a: Self::F32, b: Self::F32) -> Self::Mask = _mm_castps_si128(_mm_cmpeq_ps(a, b));
        lt(a: Self::F32, b: Self::F32) -> Self::Mask = _mm_castps_si128(_mm_cmplt_ps(a, b));
        le(a: Self::F32, b: Self::F32) -> Self::Mask = _mm_castps_si128(_mm_cmple_ps(a, b));
        keep_nan(a: Self::F32, b: Self::F32) -> Self::F32 = {
            let nan = _mm_cmpunord_ps(a, a);
            _mm_or_ps(_mm_and_ps(nan, a), _mm_andnot_ps(nan, b))
        };
        select(m: Self::Mask, a: Self::F32, b: Self::F32) -> Self::F32 = {
            let m = _mm_castsi128_ps(m);
            _mm_or_ps(_mm_and_ps(m, a), _mm_andnot_ps(m, b))
        };
        splat_i32(x: i32) -> Self::I32 = _mm_set1_epi32(x);
        add_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm_add_epi32(a, b);
        sub_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm_sub_epi32(a, b);
        and_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm_and_si128(a, b);
        or_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm_or_si128(a, b);
        xor_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm_xor_si128(a, b);
        shl_i32(a: Self::I32, n: u32) -> Self::I32 = _mm_sll_epi32(a, _mm_cvtsi32_si128((n & 31) as i32));
        shr_i32(a: Self::I32, n: u32) -> Self::I32 = _mm_sra_epi32(a, _mm_cvtsi32_si128((n & 31) as i32));
        shr_logical_i32(a: Self::I32, n: u32) -> Self::I32 = _mm_srl_epi32(a, _mm_cvtsi32_si128((n & 31) as i32));
        eq_i32(a: Self::I32, b: Self::I32) -> Self::Mask = _mm_cmpeq_epi32(a, b);
        lt_i32(a: Self::I32, b: Self::I32) -> Self::Mask = _mm_cmpgt_epi32(b, a);
        select_i32(m: Self::Mask, a: Self::I32, b: Self::I32) -> Self::I32 = _mm_or_si128(_mm_and_si128(m, a), _mm_andnot_si128(m, b));
        max_i32(a: Self::I32, b: Self::I32) -> Self::I32 = self.select_i32(self.lt_i32(b, a), a, b);
        min_i32(a: Self::I32, b: Self::I32) -> Self::I32 = self.select_i32(self.lt_i32(a, b), a, b);
        splat_i64(x: i64) -> Self::I64 = [_mm_set1_epi64x(x); 2];
        add_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm_add_epi64(a[0], b[0]), _mm_add_epi64(a[1], b[1])];
        sub_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm_sub_epi64(a[0], b[0]), _mm_sub_epi64(a[1], b[1])];
        and_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm_and_si128(a[0], b[0]), _mm_and_si128(a[1], b[1])];
        or_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm_or_si128(a[0], b[0]), _mm_or_si128(a[1], b[1])];
        xor_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm_xor_si128(a[0], b[0]), _mm_xor_si128(a[1], b[1])];
        shl_i64(a: Self::I64, n: u32) -> Self::I64 = [_mm_sll_epi64(a[0], _mm_cvtsi32_si128((n & 63) as i32)), _mm_sll_epi64(a[1], _mm_cvtsi32_si128((n & 63) as i32))];
        shr_logical_i64(a: Self::I64, n: u32) -> Self::I64 = [_mm_srl_epi64(a[0], _mm_cvtsi32_si128((n & 63) as i32)), _mm_srl_epi64(a[1], _mm_cvtsi32_si128((n & 63) as i32))];
        add_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_cvtsi128_si32(_mm_add_epi8(_mm_cvtsi32_si128(a as i32), _mm_cvtsi32_si128(b as i32))) as u32;
        sub_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_cvtsi128_si32(_mm_sub_epi8(_mm_cvtsi32_si128(a as i32), _mm_cvtsi32_si128(b as i32))) as u32;
        max_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_cvtsi128_si32(_mm_max_epu8(_mm_cvtsi32_si128(a as i32), _mm_cvtsi32_si128(b as i32))) as u32;
        min_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_cvtsi128_si32(_mm_min_epu8(_mm_cvtsi32_si128(a as i32), _mm_cvtsi32_si128(b as i32))) as u32;
        and_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a & b;
        or_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a | b;
        xor_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a ^ b;
        f32_to_bits(a: Self::F32) -> Self::I32 = _mm_castps_si128(a);
        bits_to_f32(a: Self::I32) -> Self::F32 = _mm_castsi128_ps(a);
        i32_to_f32(a: Self::I32) -> Self::F32 = _mm_cvtepi32_ps(a);
        i32_to_i64(a: Self::I32) -> Self::I64 = {
            let sign = _mm_srai_epi32::<31>(a);
            [_mm_unpacklo_epi32(a, sign), _mm_unpackhi_epi32(a, sign)]
        };
        u8_to_i32(a: Self::U8) -> Self::I32 = {
            let zero = _mm_setzero_si128();
            _mm_unpacklo_epi16(_mm_unpacklo_epi8(_mm_cvtsi32_si128(a as i32), zero), zero)
        };
        i32_to_u8(a: Self::I32) -> Self::U8 = {
            let halves = _mm_packs_epi32(a, a);
            _mm_cvtsi128_si32(_mm_packus_epi16(halves, halves)) as u32
        };
        f32_to_i32(a: Self::F32) -> Self::I32 = {
            let number = self.eq(a, a);
            let whole = _mm_and_si128(_mm_cvttps_epi32(a), number);
            // Too large gives i32::MIN: all bits turned is i32::MAX.
            let large = self.le(self.splat(2_147_483_648.0), a);
            _mm_xor_si128(whole, large)
        };
    }
}

/// The columns of four rows.
#[inline(always)]
pub(crate) fn transposed(rows: [[u32; 4]; 4]) -> [[u32; 4]; 4] {
    // SAFETY: this module exists where all machines have SSE2; rows and vectors are the same bits.
    unsafe {
        let [a, b, c, d] = rows.map(|row| core::mem::transmute::<[u32; 4], __m128>(row));
        let (ab, cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
        let (above, below) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
        let columns =
            [_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab), _mm_movelh_ps(above, below), _mm_movehl_ps(below, above)];
        columns.map(|column| core::mem::transmute::<__m128, [u32; 4]>(column))
    }
}
