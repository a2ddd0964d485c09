//! Handwritten digits on a Cortex-M4F: the model lies in .bss, its weights in flash, results go out through semihosting.
#![no_std]
#![no_main]

mod evaluate;
mod stack;

use core::panic::PanicInfo;
use cortex_m_rt::entry;
use cortex_m_semihosting::{debug, hio};

include_ir::include_model!("digits");

#[entry]
fn main() -> ! {
    static mut MODEL: digits::Model = digits::Model::new();
    let mut output = hio::hstdout().ok();
    let mut print = |text: &[u8]| {
        if let Some(output) = &mut output {
            // Nobody is there to be told when printing fails.
            let _ = output.write_all(text);
        }
    };
    let good = evaluate::evaluate(MODEL, &mut print, stack::used);
    debug::exit(if good { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    loop {}
}

/// Never linked in a release build: nothing here or in the model panics. A debug build ends here on arithmetic overflow.
#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}
