//! Start-up, stack, system calls and the memory functions that compilers expect, for x86-64 Linux.
use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

const STACK_BYTES: usize = 64 * 1024;
const PAINT: u64 = 0xCCCC_CCCC_CCCC_CCCC;

/// The program's stack. The first code that runs paints it, so that the paint that is left tells how much was used.
#[repr(C, align(64))]
struct Stack(UnsafeCell<[u64; STACK_BYTES / 8]>);
// SAFETY: only the processor uses it, as the stack of the only thread; `stack_used` reads it by volatile reads.
unsafe impl Sync for Stack {}
static STACK: Stack = Stack(UnsafeCell::new([0; STACK_BYTES / 8]));

global_asm!(
    ".globl _start",
    "_start:",
    "lea rdi, [rip + {stack}]",
    "mov ecx, {words}",
    "movabs rax, {paint}",
    "cld",
    "rep stosq",
    "mov rsp, rdi",
    "xor ebp, ebp",
    "call {start}",
    "ud2",
    stack = sym STACK,
    words = const STACK_BYTES / 8,
    paint = const PAINT,
    start = sym start,
);

extern "C" fn start() -> ! {
    exit(crate::main())
}

/// Bytes of stack below the caller that were used since the start.
#[inline(never)]
pub fn stack_used() -> usize {
    let here = 0u64;
    let top = (&raw const here) as usize;
    let mut word: *const u64 = STACK.0.get().cast();
    // SAFETY: every address from the end of the stack up to a variable on it is part of the stack.
    while (word as usize) < top && unsafe { word.read_volatile() } == PAINT {
        word = word.wrapping_add(1);
    }
    top - word as usize
}

/// # Safety
/// The arguments are valid for this system call.
unsafe fn system_call(number: usize, a: usize, b: usize, c: usize) -> isize {
    let result;
    // SAFETY: the kernel keeps all registers but these.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            out("rcx") _, out("r11") _, options(nostack));
    }
    result
}

/// Writes text to standard output.
pub fn print(text: &[u8]) {
    // SAFETY: write(1, text, length) reads the text.
    unsafe { system_call(1, 1, text.as_ptr() as usize, text.len()) };
}

fn exit(status: u8) -> ! {
    loop {
        // SAFETY: exit_group(status) has no other arguments.
        unsafe { system_call(231, usize::from(status), 0, 0) };
    }
}

/// A static value that can be borrowed mutably once.
pub struct Taken<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the flag lets one thread have the value.
unsafe impl<T: Send> Sync for Taken<T> {}

impl<T> Taken<T> {
    pub const fn new(value: T) -> Self {
        Taken { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value, the first time.
    #[allow(clippy::mut_from_ref)]
    pub fn take(&'static self) -> Option<&'static mut T> {
        // SAFETY: nobody else passed the flag.
        (!self.taken.swap(true, Ordering::AcqRel)).then(|| unsafe { &mut *self.value.get() })
    }
}

/// Never linked in a release build: nothing here or in the model panics. A debug build ends here on arithmetic overflow.
#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    exit(101)
}

// What follows comes from libc elsewhere; compiled code calls it.

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: promised by the caller.
    unsafe {
        asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= n {
        // SAFETY: promised by the caller; the ends do not meet a copy upwards.
        return unsafe { memcpy(to, from, n) };
    }
    // SAFETY: promised by the caller; downwards from the last byte.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") n => _, inout("rdi") to.wrapping_add(n).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(n).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    // SAFETY: promised by the caller.
    unsafe {
        asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte as u8,
            options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    for i in 0..n {
        // SAFETY: promised by the caller. Volatile, or this loop would be compiled to a call of itself.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: promised by the caller.
    unsafe { memcmp(a, b, n) }
}

/// `core` comes compiled for unwinding and names this; with `panic = "abort"` nobody calls it.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
