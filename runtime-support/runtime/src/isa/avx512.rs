//! AVX-512: 512 bits.
use crate::simd::{Simd, WithSimd, operations};
use core::arch::x86_64::*;

/// AVX-512: 512 bits. Made only where the machine has it.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// # Safety
    /// The machine has the instruction set, and the caller is compiled for it.
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        Avx512(())
    }
}

// SAFETY: the vectors are plain data of exactly that many elements.
unsafe impl Simd for Avx512 {
    type F32 = __m512;
    type I32 = __m512i;
    type I64 = [__m512i; 2];
    type U8 = __m128i;
    type Mask = __mmask16;
    const LANES: usize = 16;

    #[inline(always)]
    fn apart<K: WithSimd>(self, work: K) -> K::Output {
        // SAFETY: the token proves the instruction set.
        unsafe { apart(self, work) }
    }

    operations! { self;
        mask_from_bits(bits: u32) -> Self::Mask = bits as u16;
        mask_bits(m: Self::Mask) -> u32 = u32::from(m);
        mask_and(a: Self::Mask, b: Self::Mask) -> Self::Mask = a & b;
        mask_or(a: Self::Mask, b: Self::Mask) -> Self::Mask = a | b;
        splat(x: f32) -> Self::F32 = _mm512_set1_ps(x);
        add(a: Self::F32, b: Self::F32) -> Self::F32 = _mm512_add_ps(a, b);
        sub(a: Self::F32, b: Self::F32) -> Self::F32 = _mm512_sub_ps(a, b);
        mul(a: Self::F32, b: Self::F32) -> Self::F32 = _mm512_mul_ps(a, b);
        div(a: Self::F32, b: Self::F32) -> Self::F32 = _mm512_div_ps(a, b);
        max(a: Self::F32, b: Self::F32) -> Self::F32 = _mm512_max_ps(a, b);
        min(a: Self::F32, b: Self::F32) -> Self::F32 = _mm512_min_ps(a, b);
        sqrt(a: Self::F32) -> Self::F32 = _mm512_sqrt_ps(a);
        mul_add(a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 = _mm512_fmadd_ps(a, b, c);
        scale(a: Self::F32, n: Self::F32) -> Self::F32 = _mm512_scalef_ps(a, n);
        floor(a: Self::F32) -> Self::F32 = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(a);
        round_half_even(a: Self::F32) -> Self::F32 = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a);
        abs(a: Self::F32) -> Self::F32 = _mm512_abs_ps(a);
        keep_nan(a: Self::F32, b: Self::F32) -> Self::F32 = _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a);
        eq(a: Self::F32, b: Self::F32) -> Self::Mask = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b);
        lt(a: Self::F32, b: Self::F32) -> Self::Mask = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
        le(a: Self::F32, b: Self::F32) -> Self::Mask = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b);
        select(m: Self::Mask, a: Self::F32, b: Self::F32) -> Self::F32 = _mm512_mask_mov_ps(b, m, a);
        lookup(table: Self::F32, index: Self::I32) -> Self::F32 = _mm512_permutexvar_ps(index, table);
        lookup_in_two(a: Self::F32, b: Self::F32, index: Self::I32) -> Self::F32 = _mm512_permutex2var_ps(a, index, b);
        load_partial(from: &[f32]) -> Self::F32 = _mm512_maskz_loadu_ps(self.mask_first(from.len()), from.as_ptr());
        store_partial(to: &mut [f32], v: Self::F32) = _mm512_mask_storeu_ps(to.as_mut_ptr(), self.mask_first(to.len()), v);
        splat_i32(x: i32) -> Self::I32 = _mm512_set1_epi32(x);
        add_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm512_add_epi32(a, b);
        sub_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm512_sub_epi32(a, b);
        and_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm512_and_si512(a, b);
        or_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm512_or_si512(a, b);
        xor_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm512_xor_si512(a, b);
        shl_i32(a: Self::I32, n: u32) -> Self::I32 = _mm512_sll_epi32(a, _mm_cvtsi32_si128((n & 31) as i32));
        shr_i32(a: Self::I32, n: u32) -> Self::I32 = _mm512_sra_epi32(a, _mm_cvtsi32_si128((n & 31) as i32));
        shr_logical_i32(a: Self::I32, n: u32) -> Self::I32 = _mm512_srl_epi32(a, _mm_cvtsi32_si128((n & 31) as i32));
        mul_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm512_mullo_epi32(a, b);
        max_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm512_max_epi32(a, b);
        min_i32(a: Self::I32, b: Self::I32) -> Self::I32 = _mm512_min_epi32(a, b);
        eq_i32(a: Self::I32, b: Self::I32) -> Self::Mask = _mm512_cmpeq_epi32_mask(a, b);
        lt_i32(a: Self::I32, b: Self::I32) -> Self::Mask = _mm512_cmplt_epi32_mask(a, b);
        select_i32(m: Self::Mask, a: Self::I32, b: Self::I32) -> Self::I32 = _mm512_mask_mov_epi32(b, m, a);
        splat_i64(x: i64) -> Self::I64 = [_mm512_set1_epi64(x); 2];
        add_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm512_add_epi64(a[0], b[0]), _mm512_add_epi64(a[1], b[1])];
        sub_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm512_sub_epi64(a[0], b[0]), _mm512_sub_epi64(a[1], b[1])];
        and_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm512_and_si512(a[0], b[0]), _mm512_and_si512(a[1], b[1])];
        or_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm512_or_si512(a[0], b[0]), _mm512_or_si512(a[1], b[1])];
        xor_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm512_xor_si512(a[0], b[0]), _mm512_xor_si512(a[1], b[1])];
        shl_i64(a: Self::I64, n: u32) -> Self::I64 = [_mm512_sll_epi64(a[0], _mm_cvtsi32_si128((n & 63) as i32)), _mm512_sll_epi64(a[1], _mm_cvtsi32_si128((n & 63) as i32))];
        shr_logical_i64(a: Self::I64, n: u32) -> Self::I64 = [_mm512_srl_epi64(a[0], _mm_cvtsi32_si128((n & 63) as i32)), _mm512_srl_epi64(a[1], _mm_cvtsi32_si128((n & 63) as i32))];
        eq_i64(a: Self::I64, b: Self::I64) -> Self::Mask = join(_mm512_cmpeq_epi64_mask(a[0], b[0]), _mm512_cmpeq_epi64_mask(a[1], b[1]));
        lt_i64(a: Self::I64, b: Self::I64) -> Self::Mask = join(_mm512_cmplt_epi64_mask(a[0], b[0]), _mm512_cmplt_epi64_mask(a[1], b[1]));
        mul_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm512_mullo_epi64(a[0], b[0]), _mm512_mullo_epi64(a[1], b[1])];
        max_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm512_max_epi64(a[0], b[0]), _mm512_max_epi64(a[1], b[1])];
        min_i64(a: Self::I64, b: Self::I64) -> Self::I64 = [_mm512_min_epi64(a[0], b[0]), _mm512_min_epi64(a[1], b[1])];
        shr_i64(a: Self::I64, n: u32) -> Self::I64 = [_mm512_sra_epi64(a[0], _mm_cvtsi32_si128((n & 63) as i32)), _mm512_sra_epi64(a[1], _mm_cvtsi32_si128((n & 63) as i32))];
        select_i64(m: Self::Mask, a: Self::I64, b: Self::I64) -> Self::I64 = [_mm512_mask_mov_epi64(b[0], m as u8, a[0]), _mm512_mask_mov_epi64(b[1], (m >> 8) as u8, a[1])];
        splat_u8(x: u8) -> Self::U8 = _mm_set1_epi8(x as i8);
        add_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_add_epi8(a, b);
        sub_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_sub_epi8(a, b);
        max_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_max_epu8(a, b);
        min_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_min_epu8(a, b);
        and_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_and_si128(a, b);
        or_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_or_si128(a, b);
        xor_u8(a: Self::U8, b: Self::U8) -> Self::U8 = _mm_xor_si128(a, b);
        eq_u8(a: Self::U8, b: Self::U8) -> Self::Mask = _mm_cmpeq_epu8_mask(a, b);
        lt_u8(a: Self::U8, b: Self::U8) -> Self::Mask = _mm_cmplt_epu8_mask(a, b);
        select_u8(m: Self::Mask, a: Self::U8, b: Self::U8) -> Self::U8 = _mm_mask_mov_epi8(b, m, a);
        f32_to_bits(a: Self::F32) -> Self::I32 = _mm512_castps_si512(a);
        bits_to_f32(a: Self::I32) -> Self::F32 = _mm512_castsi512_ps(a);
        i32_to_f32(a: Self::I32) -> Self::F32 = _mm512_cvtepi32_ps(a);
        f32_to_i32(a: Self::F32) -> Self::I32 = {
            let whole = _mm512_maskz_cvttps_epi32(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(a, a), a);
            let large = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, _mm512_set1_ps(2_147_483_648.0));
            _mm512_mask_mov_epi32(whole, large, _mm512_set1_epi32(i32::MAX))
        };
        i32_to_i64(a: Self::I32) -> Self::I64 = [_mm512_cvtepi32_epi64(_mm512_castsi512_si256(a)), _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64::<1>(a))];
        i64_to_i32(a: Self::I64) -> Self::I32 = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(a[0])), _mm512_cvtepi64_epi32(a[1]));
        u8_to_i32(a: Self::U8) -> Self::I32 = _mm512_cvtepu8_epi32(a);
        i32_to_u8(a: Self::I32) -> Self::U8 = _mm512_cvtusepi32_epi8(_mm512_max_epi32(a, _mm512_setzero_si512()));
    }

    #[inline(always)]
    fn turned(self, x: [Self::F32; 16]) -> [Self::F32; 16] {
        // SAFETY: the token proves the instruction set.
        unsafe { turned(x) }
    }

    #[inline(always)]
    unsafe fn splat_two(self, p: *const f32) -> Self::F32 {
        // SAFETY: the token proves the instruction set; the caller promises the memory.
        unsafe { _mm512_castpd_ps(_mm512_set1_pd(p.cast::<f64>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn splat_four(self, p: *const f32) -> Self::F32 {
        // SAFETY: the token proves the instruction set; the caller promises the memory.
        unsafe { _mm512_broadcast_f32x4(_mm_loadu_ps(p)) }
    }

    #[inline(always)]
    unsafe fn load_f16(self, p: *const u16) -> Self::F32 {
        // SAFETY: the token proves the instruction set; the caller promises the memory.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
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

/// A square of numbers: first four by four of them, then such squares.
///
/// # Safety
/// The machine has the instruction set.
// Loops, as closures would be compiled without it.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2")]
unsafe fn turned(x: [__m512; 16]) -> [__m512; 16] {
    // Vector r of these has lanes r, r + 4, .. of four columns.
    let (mut fours, mut rows) = ([[_mm512_setzero_ps(); 4]; 4], [_mm512_setzero_ps(); 16]);
    for i in 0..4 {
        let (a, b) = (_mm512_unpacklo_ps(x[4 * i], x[4 * i + 1]), _mm512_unpackhi_ps(x[4 * i], x[4 * i + 1]));
        let (c, d) = (_mm512_unpacklo_ps(x[4 * i + 2], x[4 * i + 3]), _mm512_unpackhi_ps(x[4 * i + 2], x[4 * i + 3]));
        let (a, b, c, d) = (_mm512_castps_pd(a), _mm512_castps_pd(b), _mm512_castps_pd(c), _mm512_castps_pd(d));
        fours[i] = [
            _mm512_castpd_ps(_mm512_unpacklo_pd(a, c)),
            _mm512_castpd_ps(_mm512_unpackhi_pd(a, c)),
            _mm512_castpd_ps(_mm512_unpacklo_pd(b, d)),
            _mm512_castpd_ps(_mm512_unpackhi_pd(b, d)),
        ];
    }
    for r in 0..4 {
        let [a, b, c, d] = [fours[0][r], fours[1][r], fours[2][r], fours[3][r]];
        let (low, high) = (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b));
        let (lows, highs) = (_mm512_shuffle_f32x4::<0x44>(c, d), _mm512_shuffle_f32x4::<0xee>(c, d));
        rows[r] = _mm512_shuffle_f32x4::<0x88>(low, lows);
        rows[r + 4] = _mm512_shuffle_f32x4::<0xdd>(low, lows);
        rows[r + 8] = _mm512_shuffle_f32x4::<0x88>(high, highs);
        rows[r + 12] = _mm512_shuffle_f32x4::<0xdd>(high, highs);
    }
    rows
}

/// Masks of eight lanes each as one.
#[inline(always)]
fn join(low: u8, high: u8) -> u16 {
    u16::from(low) | u16::from(high) << 8
}

/// Not inlined: where a function has target features itself, that is a wish of which passes may lose sight.
///
/// # Safety
/// The machine has the instruction set.
#[inline(never)]
unsafe fn apart<K: WithSimd>(s: Avx512, work: K) -> K::Output {
    /// # Safety
    /// As `apart`.
    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,fma,avx2")]
    unsafe fn run<K: WithSimd>(s: Avx512, work: K) -> K::Output {
        work.run(s)
    }
    // SAFETY: promised by the caller.
    unsafe { run(s, work) }
}
