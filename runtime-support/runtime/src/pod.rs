//! Plain data: the element and array types that may live in an arena or a weights blob.

/// Plain data: every bit pattern is valid, no padding, no pointers, no interior mutability.
///
/// Reading stale arena bytes as a `Pod` type is therefore always defined.
///
/// # Safety
/// The properties above hold, and all zero bits are [`Pod::ZERO`].
pub unsafe trait Pod: Copy + Send + Sync + 'static {
    /// The value of all zero bits.
    const ZERO: Self;
}

macro_rules! pod {
    ($($t:ty = $zero:expr;)*) => { $(
        // SAFETY: a primitive number: no invalid bit pattern, no padding.
        unsafe impl Pod for $t {
            const ZERO: Self = $zero;
        }
    )* };
}
pod! {
    i8 = 0; u8 = 0; i16 = 0; u16 = 0; i32 = 0; u32 = 0; i64 = 0; u64 = 0; f32 = 0.0; f64 = 0.0;
}

// SAFETY: arrays of plain data have no padding between elements; so shapes are types.
unsafe impl<T: Pod, const N: usize> Pod for [T; N] {
    const ZERO: Self = [T::ZERO; N];
}

/// Types for which all zero bits are a valid initial value.
///
/// # Safety
/// All zero bits must be a valid value of the type.
pub unsafe trait Zeroable {}

// SAFETY: every bit pattern of plain data is valid.
unsafe impl<T: Pod> Zeroable for T {}

/// A zeroed heap value, made without a copy through the stack (a 12 MB arena as a `let` overflows it).
#[cfg(feature = "alloc")]
pub fn zeroed_box<T: Zeroable>() -> alloc::boxed::Box<T> {
    use alloc::alloc::handle_alloc_error;
    let layout = core::alloc::Layout::new::<T>();
    if layout.size() == 0 {
        // SAFETY: `Zeroable` promises that no bits at all are a valid `T`; a box of no bytes needs only alignment.
        return unsafe { alloc::boxed::Box::from_raw(core::ptr::NonNull::<T>::dangling().as_ptr()) };
    }
    // SAFETY: the layout has a size.
    let memory = unsafe { crate::pages::alloc_zeroed(layout) }.cast::<T>();
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: allocated for `T` by the global allocator; `Zeroable` promises that all zero bits are a valid `T`.
    unsafe { alloc::boxed::Box::from_raw(memory) }
}
