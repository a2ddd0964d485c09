//! Reads the machine code of the contraction micro-kernels: inner loops multiply and add, and never touch the stack.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod machine_code;

use include_ir_runtime::__private::v1::*;
use machine_code::disassembly;

/// The kernels that call the copy of what they read, a part of the window at a time.
const PLANES: &str = "planar_kernel";

/// One instruction: address, text, target if it is a jump.
struct Instruction {
    address: u64,
    text: String,
    jump: Option<u64>,
}

/// Functions of this very test program whose name contains `part`.
fn functions(disassembly: &str, part: &str) -> Vec<Vec<Instruction>> {
    let mut found: Vec<Vec<Instruction>> = Vec::new();
    let mut inside = false;
    for line in disassembly.lines() {
        if line.ends_with(">:") {
            inside = line.contains(part) && line.contains("kernel");
            if inside {
                found.push(Vec::new());
            }
        } else if let (true, Some((address, text))) = (inside, line.trim().split_once(":\t")) {
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            let mut words = text.split_whitespace();
            let is_jump = words.next().is_some_and(|word| word.starts_with('j'));
            let jump = words.next().filter(|_| is_jump).and_then(|word| u64::from_str_radix(word, 16).ok());
            if let Some(function) = found.last_mut() {
                function.push(Instruction { address, text: text.to_owned(), jump });
            }
        }
    }
    found
}

/// Innermost loops: from the target of a backward jump to the jump, without another loop inside.
fn innermost_loops(function: &[Instruction]) -> Vec<&[Instruction]> {
    let mut loops: Vec<&[Instruction]> = Vec::new();
    for (end, instruction) in function.iter().enumerate() {
        let Some(start) = instruction.jump.filter(|to| *to <= instruction.address) else { continue };
        let Some(start) = function.iter().position(|i| i.address == start) else { continue };
        let body = &function[start..=end];
        // A jump back from the end of a loop lies behind those of the loops inside.
        if is_loop(body) && !loops.iter().any(|inner| inner[0].address >= body[0].address) {
            loops.push(body);
        }
    }
    loops
}

/// Whether the last instruction of those, which jumps back to the first, is reached from there: a part of the function that lies
/// behind others because it seldom runs also jumps back.
fn is_loop(body: &[Instruction]) -> bool {
    let (mut reached, mut open) = (vec![false; body.len()], vec![0]);
    while let Some(at) = open.pop() {
        if at >= body.len() || std::mem::replace(&mut reached[at], true) {
            continue;
        }
        let Instruction { text, jump, .. } = &body[at];
        open.extend(jump.and_then(|to| body.iter().position(|i| i.address == to)));
        if !["jmp", "ret", "ud2"].iter().any(|end| text.starts_with(end)) {
            open.push(at + 1);
        }
    }
    reached[body.len() - 1]
}

/// Checks the kernels of one set: one of them has at least `rows * vectors` multiply-adds per step, and all but `spilling` keep
/// their accumulators in registers.
fn check(disassembly: &str, part: &str, (rows, vectors): (usize, usize), register: &str, spilling: usize) {
    let functions = functions(disassembly, part);
    assert!(functions.len() >= rows, "{part}: only {} kernels found", functions.len());
    let (mut full, mut spills) = (0, Vec::new());
    for function in &functions {
        let mut spill = None;
        for body in innermost_loops(function) {
            let adds = body.iter().filter(|i| i.text.starts_with("vfmadd") && i.text.contains(register)).count();
            // What is called is not compiled for the instruction set: every vector would pass through memory. Loops over channels
            // without rows of the window, which become loops of their own, call what copies.
            let call = body.iter().find(|i| i.text.starts_with("call") && !(part == PLANES && adds == 0));
            assert!(call.is_none(), "{part}: a call in an inner loop: {}", call.map_or("", |i| &i.text));
            if adds == 0 {
                continue;
            }
            spill = spill.or(body.iter().find(|i| {
                let vector = i.text.contains("%xmm") || i.text.contains("%ymm") || i.text.contains("%zmm");
                vector && i.text.contains("(%rsp")
            }));
            full += usize::from(adds >= rows * vectors);
        }
        spills.extend(spill.map(|i| &i.text));
    }
    assert!(spills.len() <= spilling, "{part}: spills in inner loops: {spills:?}");
    assert!(full > 0, "{part}: no loop with {rows} x {vectors} multiply-adds");
}

#[test]
fn inner_loops_hold_their_accumulators_in_registers() {
    if cfg!(debug_assertions) {
        // Checked pointer operations keep copies on the stack.
        eprintln!("skipped: needs a build without debug assertions (cargo test --release)");
        return;
    }
    // Names the kernels, so that they are linked in.
    let mut out = [0.0f32; 1];
    Contraction::NEW.run(Cx::detect(), [1.0].src(), &[2.0; 16], out.dst(), Epilogue::NONE);
    assert_eq!(out, [2.0]);
    let wide = Contraction { cols: 16, ..Contraction::NEW };
    let mut out = [0.0f32; 16];
    wide.run_packed(Cx::detect(), [1.0].src(), &[2.0; 16], &mut [0.0; 16], out.dst(), Epilogue::NONE);
    assert_eq!(out, [2.0; 16]);
    let Some(text) = disassembly() else { return };
    check(&text, "AVX512_48", (9, 3), "%zmm", 0);
    check(&text, "AVX512_32", (12, 2), "%zmm", 0);
    check(&text, "AVX512_16", (12, 1), "%zmm", 0);
    check(&text, "narrow_kernel", (14, 1), "%zmm", 0);
    // Rows are columns here, and vectors pixels.
    check(&text, PLANES, (12, 2), "%zmm", 0);
    // Those of groups, one for each tile, keep what they look up on the stack where registers are few.
    check(&text, "narrow_kernel", (10, 1), "%ymm", 6);
    // Three rows of four vectors, three elements and a column are all sixteen registers.
    check(&text, "AVX2_32", (3, 4), "%ymm", 1);
    check(&text, "AVX2_24", (3, 3), "%ymm", 0);
    check(&text, "AVX2_16", (6, 2), "%ymm", 0);
    check(&text, "AVX2_8", (10, 1), "%ymm", 0);
}
