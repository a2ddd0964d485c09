//! How much stack has been used: the start-up code paints it, the paint that is left tells.

unsafe extern "C" {
    static mut _stack_end: u32;
}

/// Bytes of stack below the caller that were used since the start.
#[inline(never)]
pub fn used() -> usize {
    let here = 0u32;
    let top = (&raw const here) as usize;
    let mut word = (&raw const _stack_end).cast::<u32>();
    // SAFETY: every address from the end of the stack up to a variable on it is part of the stack, and the start-up code
    // has written all of it.
    while (word as usize) < top && unsafe { word.read_volatile() } == cortex_m_rt::STACK_PAINT_VALUE {
        word = word.wrapping_add(1);
    }
    top - word as usize
}
