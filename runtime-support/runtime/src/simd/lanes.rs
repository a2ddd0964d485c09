//! Lane-by-lane definitions of vector operations, by way of memory; optimised builds keep them in registers.

/// All bits zero.
///
/// # Safety
/// `V` is plain data.
#[inline(always)]
pub(super) unsafe fn zero<V>() -> V {
    // SAFETY: promised by the caller.
    unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
}

/// Lane `i`.
///
/// # Safety
/// `V` holds more than `i` elements `T`.
#[inline(always)]
unsafe fn lane<V, T: Copy>(v: &V, i: usize) -> T {
    debug_assert!((i + 1) * size_of::<T>() <= size_of::<V>());
    // SAFETY: promised by the caller.
    unsafe { core::ptr::from_ref(v).cast::<T>().add(i).read_unaligned() }
}

/// Changes lane `i`.
///
/// # Safety
/// `V` holds more than `i` elements `T`.
#[inline(always)]
unsafe fn set<V, T: Copy>(v: &mut V, i: usize, x: T) {
    debug_assert!((i + 1) * size_of::<T>() <= size_of::<V>());
    // SAFETY: promised by the caller.
    unsafe { core::ptr::from_mut(v).cast::<T>().add(i).write_unaligned(x) }
}

/// Lanes `f(a)`; `out` gives the type.
///
/// # Safety
/// `A` is `n` elements `T`, `R` is `n` elements `U`.
#[inline(always)]
pub(super) unsafe fn map1<A, T: Copy, R, U: Copy>(n: usize, a: A, mut out: R, f: impl Fn(T) -> U) -> R {
    for i in 0..n {
        // SAFETY: promised by the caller.
        unsafe { set(&mut out, i, f(lane(&a, i))) };
    }
    out
}

/// Lanes from 16-bit floats; `out` gives the type.
///
/// # Safety
/// `R` is `n` elements `f32`; as many 16-bit floats are readable.
#[inline(always)]
pub(super) unsafe fn from_halves<R>(n: usize, from: *const u16, mut out: R) -> R {
    for i in 0..n {
        // SAFETY: promised by the caller.
        unsafe { set(&mut out, i, crate::cast::f16_bits_to_f32(from.add(i).read_unaligned())) };
    }
    out
}

/// Lanes of `table` at `index`, modulo `few`, among the `few` lanes that have each other for neighbours.
///
/// # Safety
/// `T` is `n` elements `f32`, `I` is `n` elements `i32`; `n` and `few` are powers of two, `few` is at most `n`.
#[inline(always)]
pub(super) unsafe fn lookup<T: Copy, I>((n, few): (usize, usize), table: T, index: I) -> T {
    let mut out = table;
    for i in 0..n {
        // SAFETY: promised by the caller.
        unsafe {
            let at = i & !(few - 1) | lane::<I, i32>(&index, i) as usize & (few - 1);
            set::<T, f32>(&mut out, i, lane(&table, at));
        }
    }
    out
}

/// Lane j of vector i is lane i of vector j, for `n` vectors; the others stay as they are.
///
/// # Safety
/// `T` is `n` elements `f32`; `n` is at most 16.
#[inline(always)]
pub(super) unsafe fn turned<T: Copy>(n: usize, x: [T; 16]) -> [T; 16] {
    let mut out = x;
    for (i, row) in out.iter_mut().enumerate().take(n) {
        for (j, column) in x.iter().enumerate().take(n) {
            // SAFETY: promised by the caller.
            unsafe { set::<T, f32>(row, j, lane(column, i)) };
        }
    }
    out
}

/// Lanes `f(a, b)`.
///
/// # Safety
/// `V` is `n` elements `T`.
#[inline(always)]
pub(super) unsafe fn map2<V, T: Copy>(n: usize, mut a: V, b: V, f: impl Fn(T, T) -> T) -> V {
    for i in 0..n {
        // SAFETY: promised by the caller.
        unsafe {
            let x = f(lane(&a, i), lane(&b, i));
            set(&mut a, i, x);
        }
    }
    a
}

/// Bit i is `f` of lane i.
///
/// # Safety
/// `V` is `n` elements `T`.
#[inline(always)]
pub(super) unsafe fn bits2<V, T: Copy>(n: usize, a: V, b: V, f: impl Fn(T, T) -> bool) -> u32 {
    let mut bits = 0;
    for i in 0..n {
        // SAFETY: promised by the caller.
        bits |= u32::from(unsafe { f(lane(&a, i), lane(&b, i)) }) << i;
    }
    bits
}

/// Lanes of `a` where the bit is set, else of `b`.
///
/// # Safety
/// `V` is `n` elements `T`.
#[inline(always)]
pub(super) unsafe fn select<V, T: Copy>(n: usize, bits: u32, a: V, mut b: V) -> V {
    for i in 0..n {
        // SAFETY: promised by the caller.
        let x: T = unsafe { if bits >> i & 1 == 1 { lane(&a, i) } else { lane(&b, i) } };
        // SAFETY: promised by the caller.
        unsafe { set(&mut b, i, x) };
    }
    b
}

/// All lanes combined: the upper half into the lower half until one is left.
///
/// # Safety
/// `V` is `n` elements `T`, a power of two.
#[inline(always)]
pub(super) unsafe fn fold<V, T: Copy>(n: usize, mut a: V, f: impl Fn(T, T) -> T) -> T {
    let mut half = n / 2;
    while half > 0 {
        for i in 0..half {
            // SAFETY: promised by the caller.
            unsafe {
                let x = f(lane(&a, i), lane(&a, i + half));
                set(&mut a, i, x);
            }
        }
        half /= 2;
    }
    // SAFETY: promised by the caller.
    unsafe { lane(&a, 0) }
}

/// Four lanes, again and again.
pub(super) const FOURS: [i32; 16] = [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3];

/// `n` elements, zeros behind.
///
/// # Safety
/// `n` elements are readable and fit `V`, which is plain data.
#[inline(always)]
pub(super) unsafe fn partial<V, T: Copy>(from: *const T, n: usize) -> V {
    // SAFETY: promised by the caller.
    unsafe {
        let mut v = zero::<V>();
        core::ptr::copy_nonoverlapping(from, (&raw mut v).cast::<T>(), n);
        v
    }
}
