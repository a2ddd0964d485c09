//! What the operating system is told about the pages of large memory: weights in a file are wanted at once, arenas in large
//! pages. Advice only: where the system knows nothing of it, nothing happens.
use core::sync::atomic::{AtomicBool, Ordering};

/// Memory of fewer bytes is not worth a call.
const LEAST: usize = 4 << 20;
/// Least bytes of an arena in large pages. A guest system may have to ask its host for each of them, which takes milliseconds;
/// runs over smaller arenas gain nothing in return.
#[cfg(feature = "alloc")]
const LARGE: usize = 8 << 20;

/// Whether the pages of some weights have been mapped.
#[derive(Debug, Default)]
pub struct Mapped(AtomicBool);

impl Mapped {
    /// Not yet.
    #[must_use]
    pub const fn new() -> Self {
        Mapped(AtomicBool::new(false))
    }

    /// Maps the pages of `bytes` on the first call.
    #[inline]
    pub fn once(&self, bytes: &[u8]) {
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
            map(bytes);
        }
    }
}

/// Maps all pages of `bytes` in one call, instead of a fault for every few of them while a model runs.
pub fn map(bytes: &[u8]) {
    advise(bytes.as_ptr(), bytes.len(), Advice::Map);
}

/// Memory of all zero bits, in large pages where the system has them; null where there is none.
///
/// # Safety
/// As the standard library's function of this name: the layout has a size.
#[cfg(feature = "alloc")]
pub unsafe fn alloc_zeroed(layout: core::alloc::Layout) -> *mut u8 {
    if layout.size() < LARGE || cfg!(not(all(feature = "std", target_os = "linux"))) {
        // SAFETY: promised by the caller.
        return unsafe { alloc::alloc::alloc_zeroed(layout) };
    }
    // The allocator of this system writes zeros where the alignment is larger than usual: it would do so before the advice.
    // SAFETY: promised by the caller.
    let memory = unsafe { alloc::alloc::alloc(layout) };
    if !memory.is_null() {
        advise(memory, layout.size(), Advice::Enlarge);
        // SAFETY: just allocated with this size.
        unsafe { memory.write_bytes(0, layout.size()) };
    }
    memory
}

/// The advice that is given.
#[derive(Clone, Copy)]
enum Advice {
    Map,
    #[cfg(feature = "alloc")]
    Enlarge,
}

#[cfg(all(feature = "std", target_os = "linux"))]
fn advise(start: *const u8, bytes: usize, advice: Advice) {
    if bytes < LEAST {
        return;
    }
    let advice = match advice {
        Advice::Map => libc::MADV_POPULATE_READ,
        Advice::Enlarge => libc::MADV_HUGEPAGE,
    };
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let Some(page) = usize::try_from(page).ok().filter(|page| page.is_power_of_two()) else { return };
    let before = start.addr() & (page - 1);
    // SAFETY: the pages hold memory of this process; neither advice changes what is in them, nor who may use them. Errors,
    // as of an old kernel, leave everything as it was.
    let _ = unsafe { libc::madvise(start.wrapping_sub(before).cast_mut().cast(), bytes + before, advice) };
}

#[cfg(not(all(feature = "std", target_os = "linux")))]
fn advise(_: *const u8, bytes: usize, _: Advice) {
    let _ = bytes < LEAST;
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn large_memory_is_zero() {
        let layout = core::alloc::Layout::from_size_align(2 * LARGE + 64, 64).unwrap();
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc_zeroed(layout) };
        assert!(!memory.is_null());
        // SAFETY: allocated with this size, and written.
        let bytes = unsafe { core::slice::from_raw_parts(memory, layout.size()) };
        assert!(bytes.iter().all(|byte| *byte == 0));
        // SAFETY: allocated with this layout, not used any more.
        unsafe { std::alloc::dealloc(memory, layout) };
    }

    #[test]
    fn contents_stay() {
        let bytes: std::vec::Vec<u8> = (0..LEAST + 12345).map(|i| (i % 251) as u8).collect();
        let mapped = Mapped::new();
        mapped.once(&bytes[1..]);
        mapped.once(&bytes);
        assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == (i % 251) as u8));
    }
}
