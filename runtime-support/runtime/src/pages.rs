//! The pages of large memory: those of weights in a file are mapped before a model runs, arenas lie in large ones.
use core::sync::atomic::{AtomicBool, Ordering};

/// Memory of fewer bytes is not worth the care.
const LEAST: usize = 4 << 20;
/// Bytes that Linux maps around an address in a file that has no page yet, where they are in memory.
const AROUND: usize = 64 << 10;

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

/// Has all pages of `bytes` mapped, which while a model runs would take several times as long. Reading a byte of every few
/// pages takes half the time of asking for all of them (`MADV_POPULATE_READ`), which the system does page by page.
pub fn map(bytes: &[u8]) {
    if cfg!(feature = "std") && bytes.len() >= LEAST {
        bytes.iter().step_by(AROUND).for_each(|byte| {
            core::hint::black_box(*byte);
        });
    }
}

/// Memory of all zero bits, whose pages are mapped, large ones where the system has them; null where there is no memory.
///
/// # Safety
/// As the standard library's function of this name: the layout has a size.
#[cfg(feature = "alloc")]
pub unsafe fn alloc_zeroed(layout: core::alloc::Layout) -> *mut u8 {
    if layout.size() < LEAST || cfg!(not(all(feature = "std", target_os = "linux"))) {
        // SAFETY: promised by the caller.
        return unsafe { alloc::alloc::alloc_zeroed(layout) };
    }
    // The allocator of this system writes zeros where the alignment is larger than usual: it would do so before the advice.
    // SAFETY: promised by the caller.
    let memory = unsafe { alloc::alloc::alloc(layout) };
    if !memory.is_null() {
        // SAFETY: just allocated with this size.
        unsafe { zero(memory, layout.size()) };
    }
    memory
}

/// Maps the pages of memory and writes zeros: what the allocator gives may have been in use.
///
/// # Safety
/// This many bytes from `start` on belong to the caller alone.
#[cfg(feature = "alloc")]
unsafe fn zero(start: *mut u8, bytes: usize) {
    prepare(start, bytes);
    // SAFETY: promised by the caller.
    unsafe { start.write_bytes(0, bytes) };
}

/// Asks for large pages, and for all of them in one call instead of a fault for each. A system that knows nothing of it does nothing.
#[cfg(all(feature = "alloc", feature = "std", target_os = "linux"))]
fn prepare(start: *mut u8, bytes: usize) {
    /// Least bytes in large pages. A guest system may have to ask its host for each of them, which takes milliseconds; runs
    /// over smaller arenas gain little in return.
    const LARGE: usize = 8 << 20;
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let Some(page) = usize::try_from(page).ok().filter(|page| page.is_power_of_two()) else { return };
    let before = start.addr() & (page - 1);
    let large = (bytes >= LARGE).then_some(libc::MADV_HUGEPAGE);
    for advice in large.into_iter().chain([libc::MADV_POPULATE_WRITE]) {
        // SAFETY: the pages hold memory of this process; neither advice changes what is in them, nor who may use them. Errors,
        // as of an old kernel, leave everything as it was.
        let _ = unsafe { libc::madvise(start.wrapping_sub(before).cast(), bytes + before, advice) };
    }
}

#[cfg(all(feature = "alloc", not(all(feature = "std", target_os = "linux"))))]
fn prepare(_: *mut u8, _: usize) {}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_in_use_is_zero_and_what_surrounds_it_stays() {
        let mut bytes = std::vec![0xff_u8; 3 * LEAST];
        let (first, end) = (777, 3 * LEAST - 555);
        // SAFETY: these bytes are borrowed.
        unsafe { zero(bytes[first..end].as_mut_ptr(), end - first) };
        assert!(bytes[first..end].iter().all(|byte| *byte == 0));
        assert!(bytes[..first].iter().chain(&bytes[end..]).all(|byte| *byte == 0xff));
    }
}
