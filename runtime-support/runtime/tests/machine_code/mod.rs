//! The machine code of the test program that asks for it.
use std::process::Command;

/// What objdump makes of it; none, with a message, where that is not installed.
pub fn disassembly() -> Option<String> {
    let program = std::env::current_exe().expect("the test program has a path");
    let output = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(program).output();
    if output.is_err() {
        eprintln!("skipped: objdump is not installed");
    }
    Some(String::from_utf8_lossy(&output.ok()?.stdout).into_owned())
}
