//! AVX2 with FMA: 256 bits.
use crate::simd::{Simd, WithSimd, operations};
use core::arch::x86_64::*;

/// AVX2 with FMA: 256 bits. Made only where the machine has it.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// # Safety
    /// The machine has the instruction set, and the caller is compiled for it.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Avx2(())
    }
}

// SAFETY: the vectors are plain data of exactly that many elements.
unsafe impl Simd for Avx2 {
    type F32 = __m256;
    type I32 = __m256i;
    type I64 = [__m256i; 2];
    type U8 = u64;
    type Mask = __m256i;
    const LANES: usize = 8;

    #[inline(always)]
    fn apart<K: WithSimd>(self, work: K) -> K::Output {
        // SAFETY: the token proves the instruction set.
        unsafe { apart(self, work) }
    }

    operations! { self;
        mask_from_bits(bits: u32) -> Self::Mask = {
            let bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits as i32), bit), bit)
        };
        mask_bits(m: Self::Mask) -> u32 = _mm256_movemask_ps(_mm256_castsi256_ps(m)) as u32;
        mask_and(a: Self::Mask, b: Self::Mask) -> Self::Mask = _mm256_and_si256(a, b);
        mask_or(a: Self::Mask, b: Self::Mask) -> Self::Mask = _mm256_or_si256(a, b);
        mask_not(a: Self::Mask) -> Self::Mask = _mm256_xor_si256(a, _mm256_set1_epi32(-1));
        splat(x: f32) -> Self::F32 = _mm256_set1_ps(x);
        add(a: Self::F32, b: Self::F32) -> Self::F32 = _mm256_add_ps(a, b);
        sub(a: Self::F32, b: Self::F32) -> Self::F32 = _mm256_sub_ps(a, b);
        mul(a: Self::F32, b: Self::F32) -> Self::F32 = _mm256_mul_ps(a, b);
        div(a: Self::F32, b: Self::F32) -> Self::F32 = _mm256_div_ps(a, b);
        max(a: Self::F32, b: Self::F32) -> Self::F32 = _mm256_max_ps(a, b);
        min(a: Self::F32, b: Self::F32) -> Self::F32 = _mm256_min_ps(a, b);
        sqrt(a: Self::F32) -> Self::F32 = _mm256_sqrt_ps(a);
        mul_add(a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 = _mm256_fmadd_ps(a, b, c);
        floor(a: Self::F32) -> Self::F32 = _mm256_floor_ps(a);
        round_half_even(a: Self::F32) -> Self::F32 = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        abs(a: Self::F32) -> Self::F32 = _mm256_andnot_ps(_mm256_set1_ps(-0.0), a);
        eq(a: Self::F32, b: Self::F32) -> Self::Mask = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_EQ_OQ>(a, b));
        lt(a: Self::F32, b: Self::F32) -> Self::Mask = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
        le(a: Self::F32, b: Self::F32) -> Self::Mask = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LE_OQ>(a, b));
        keep_nan(a: Self::F32, b: Self::F32) -> Self::F32 = _mm256_blendv_ps(b, a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a));
        select(m: Self::Mask, a: Self::F32, b: Self::F32) -> Self::F32 = _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m));
        lookup_in_fours(table: Self::F32, index: Self::I32) -> Self::F32 = _mm256_permutevar_ps(table, index);
        load_partial(from: &[f32]) -> Self::F32 = _mm256_maskload_ps(from.as_ptr(), self.mask_first(from.len()));
        store_partial(to: &mut [f32], v: Self::F32) = {
            // A store with a mask takes many times as long on some processors.
            let (mut at, mut left) = (to.as_mut_ptr(), _mm256_castps256_ps128(v));
            if to.len() >= 8 {
                return _mm256_storeu_ps(at, v);
            }
            if to.len() & 4 != 0 {
                _mm_storeu_ps(at, left);
                (at, left) = (at.wrapping_add(4), _mm256_extractf128_ps::<1>(v));
            }
            if to.len() & 2 != 0 {
                _mm_storel_epi64(at.cast(), _mm_castps_si128(left));
                (at, left) = (at.wrapping_add(2), _mm_movehl_ps(left, left));
            }
            if to.len() & 1 != 0 {
                _mm_store_ss(at, left);
            }
        };
        splat_i32(x: i32) -> Self::I32 = _mm256_set1_epi32(x);
        add_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm256_add_epi32(a, b);
        sub_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm256_sub_epi32(a, b);
        and_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm256_and_si256(a, b);
        or_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm256_or_si256(a, b);
        xor_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm256_xor_si256(a, b);
        shl_i32(a: Self::I32, n: u32) -> Self::I32 = _mm256_sll_epi32(a, _mm_cvtsi32_si128((n & 31) as i32));
        shr_i32(a: Self::I32, n: u32) -> Self::I32 = _mm256_sra_epi32(a, _mm_cvtsi32_si128((n & 31) as i32));
        shr_logical_i32(a: Self::I32, n: u32) -> Self::I32 = _mm256_srl_epi32(a, _mm_cvtsi32_si128((n & 31) as i32));
        mul_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm256_mullo_epi32(a, b);
        max_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm256_max_epi32(a, b);
        min_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm256_min_epi32(a, b);
        eq_i32(a: Self::I32, b: Self::I32) -> Self::Mask = _mm256_cmpeq_epi32(a, b);
        lt_i32(a: Self::I32, b: Self::I32) -> Self::Mask = _mm256_cmpgt_epi32(b, a);
        select_i32(m: Self::Mask, a: Self::I32, b: Self::I32) -> Self::I32 = _mm256_blendv_epi8(b, a, m);
        splat_i64(x: i64) -> Self::I64 = [_mm256_set1_epi64x(x); 2];
        add_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm256_add_epi64(a[0], b[0]), _mm256_add_epi64(a[1], b[1])];
        sub_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm256_sub_epi64(a[0], b[0]), _mm256_sub_epi64(a[1], b[1])];
        and_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])];
        or_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])];
        xor_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1])];
        shl_i64(a: Self::I64, n: u32) -> Self::I64 = [_mm256_sll_epi64(a[0], _mm_cvtsi32_si128((n & 63) as i32)), _mm256_sll_epi64(a[1], _mm_cvtsi32_si128((n & 63) as i32))];
        shr_logical_i64(a: Self::I64, n: u32) -> Self::I64 = [_mm256_srl_epi64(a[0], _mm_cvtsi32_si128((n & 63) as i32)), _mm256_srl_epi64(a[1], _mm_cvtsi32_si128((n & 63) as i32))];
        select_i64(m: Self::Mask, a: Self::I64, b: Self::I64) -> Self::I64 = {
            let [low, high] = self.i32_to_i64(m);
            [_mm256_blendv_epi8(b[0], a[0], low), _mm256_blendv_epi8(b[1], a[1], high)]
        };
        add_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_cvtsi128_si64(_mm_add_epi8(_mm_cvtsi64_si128(a as i64), _mm_cvtsi64_si128(b as i64))) as u64;
        sub_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_cvtsi128_si64(_mm_sub_epi8(_mm_cvtsi64_si128(a as i64), _mm_cvtsi64_si128(b as i64))) as u64;
        max_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_cvtsi128_si64(_mm_max_epu8(_mm_cvtsi64_si128(a as i64), _mm_cvtsi64_si128(b as i64))) as u64;
        min_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_cvtsi128_si64(_mm_min_epu8(_mm_cvtsi64_si128(a as i64), _mm_cvtsi64_si128(b as i64))) as u64;
        and_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a & b;
        or_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a | b;
        xor_u8(a: Self::U8, b: Self::U8) -> Self::U8 = a ^ b;
        f32_to_bits(a: Self::F32) -> Self::I32 = _mm256_castps_si256(a);
        bits_to_f32(a: Self::I32) -> Self::F32 = _mm256_castsi256_ps(a);
        i32_to_f32(a: Self::I32) -> Self::F32 = _mm256_cvtepi32_ps(a);
        i32_to_i64(a: Self::I32) -> Self::I64 = [_mm256_cvtepi32_epi64(_mm256_castsi256_si128(a)), _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(a))];
        u8_to_i32(a: Self::U8) -> Self::I32 = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(a as i64));
        i32_to_u8(a: Self::I32) -> Self::U8 = {
            let halves = _mm_packs_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
            _mm_cvtsi128_si64(_mm_packus_epi16(halves, halves)) as u64
        };
        f32_to_i32(a: Self::F32) -> Self::I32 = {
            let number = self.eq(a, a);
            let whole = _mm256_and_si256(_mm256_cvttps_epi32(a), number);
            // Too large gives i32::MIN: all bits turned is i32::MAX.
            let large = self.le(self.splat(2_147_483_648.0), a);
            _mm256_xor_si256(whole, large)
        };
    }

    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> Self::F32 {
        // SAFETY: the token proves the instruction set; the caller promises the memory.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }

    #[inline(always)]
    fn turned(self, x: [__m256; 16]) -> [__m256; 16] {
        // SAFETY: the token proves the instruction set.
        unsafe { turned(x) }
    }

    #[inline(always)]
    fn prefetch(self, p: *const f32) {
        // SAFETY: a hint never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) }
    }

    #[inline(always)]
    fn prefetch_far(self, p: *const f32) {
        // SAFETY: a hint never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(p.cast()) }
    }
}

/// A square of eight by eight numbers: first halves change places, then four by four numbers. Others stay.
///
/// # Safety
/// The machine has the instruction set.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn turned(x: [__m256; 16]) -> [__m256; 16] {
    // Loops, as closures would be compiled without the instruction set.
    let (mut low, mut high, mut rows) = ([x[0]; 4], [x[0]; 4], x);
    for r in 0..4 {
        low[r] = _mm256_permute2f128_ps::<0x20>(x[r], x[r + 4]);
        high[r] = _mm256_permute2f128_ps::<0x31>(x[r], x[r + 4]);
    }
    let (low, high) = (fours_turned(low), fours_turned(high));
    for r in 0..4 {
        (rows[r], rows[r + 4]) = (low[r], high[r]);
    }
    rows
}

/// Two squares of four by four numbers, side by side.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn fours_turned(x: [__m256; 4]) -> [__m256; 4] {
    let (a, b) = (_mm256_unpacklo_ps(x[0], x[1]), _mm256_unpackhi_ps(x[0], x[1]));
    let (c, d) = (_mm256_unpacklo_ps(x[2], x[3]), _mm256_unpackhi_ps(x[2], x[3]));
    [
        _mm256_shuffle_ps::<0x44>(a, c),
        _mm256_shuffle_ps::<0xee>(a, c),
        _mm256_shuffle_ps::<0x44>(b, d),
        _mm256_shuffle_ps::<0xee>(b, d),
    ]
}

/// Not inlined: where a function has target features itself, that is a wish of which passes may lose sight.
///
/// # Safety
/// The machine has the instruction set.
#[inline(never)]
unsafe fn apart<K: WithSimd>(s: Avx2, work: K) -> K::Output {
    /// # Safety
    /// As `apart`.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn run<K: WithSimd>(s: Avx2, work: K) -> K::Output {
        work.run(s)
    }
    // SAFETY: promised by the caller.
    unsafe { run(s, work) }
}
