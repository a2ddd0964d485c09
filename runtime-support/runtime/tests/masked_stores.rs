//! Reads the machine code of what chooses between elements: nothing compiled for AVX2 stores vectors in part.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod machine_code;

use include_ir_runtime::__private::v1::*;
use include_ir_runtime::calls::{Arguments, Operand, Target, top_k};
use machine_code::disassembly;

const COLUMNS: usize = 56;

/// The least and the greatest number of every column, as generated code finds them.
#[inline(never)]
fn extremes_of_columns(
    cx: Cx<'_>,
    x: &[f32; COLUMNS * COLUMNS],
    least: &mut [f32; COLUMNS],
    greatest: &mut [f32; COLUMNS],
) {
    cx.vectorize(
        #[inline(always)]
        || {
            let (mut low, mut high) = ([f32::INFINITY; COLUMNS], [f32::NEG_INFINITY; COLUMNS]);
            nest::map(
                COLUMNS,
                #[inline(always)]
                |k| {
                    let row = x.row::<COLUMNS>(k * COLUMNS);
                    for (j, slot) in (0..COLUMNS).zip(&mut low) {
                        *slot = math::min(*slot, row.at(j));
                    }
                    for (j, slot) in (0..COLUMNS).zip(&mut high) {
                        *slot = math::max(*slot, row.at(j));
                    }
                },
            );
            (*least, *greatest) = (low, high);
        },
    );
}

/// A choice between an element and a new one, stored where the former lies, becomes a masked store, which takes AMD processors
/// many times as long as a whole one.
#[test]
fn nothing_compiled_for_avx2_makes_masked_stores() {
    if cfg!(debug_assertions) {
        eprintln!("skipped: needs a build without debug assertions (cargo test --release)");
        return;
    }
    // Names what chooses, so that it is linked in.
    let (cx, mut out) = (Cx::detect(), [0.0f32; 1]);
    Window::NEW.max(cx, [-1.0].src(), out.dst(), Epilogue::NONE);
    assert_eq!(out, [-1.0]);
    let one = |epilogue: Epilogue<'_>| {
        let mut out = [0.0f32; 1];
        Contraction::NEW.run(cx, [-1.0].src(), &[2.0; 16], out.dst(), epilogue);
        out
    };
    assert_eq!(one(Epilogue { then: Some(&Activation::LeakyRelu(0.5).on_tiles(cx)), ..Epilogue::NONE }), [-1.0]);
    assert_eq!(one(Epilogue { then: Some(&Slopes(&[0.25]).on_tiles(cx)), ..Epilogue::NONE }), [-0.5]);
    let (x, mut places, mut scratch) = ([2.0f32; 12 * 16], [7i32; 11 * 16], [0i32; 24]);
    top_k(Arguments {
        cx,
        inputs: &[Operand::new(&x, &[12, 16])],
        outputs: &mut [Target::new(&mut places, &[11, 16]), Target::new(&mut scratch, &[24])],
        integers: &[0, 0, 0],
        floats: &[],
        sizes: &mut [],
    });
    assert!(places.iter().enumerate().all(|(i, place)| *place == i as i32 / 16), "{places:?}");
    let (mut least, mut greatest) = ([0.0; COLUMNS], [0.0; COLUMNS]);
    extremes_of_columns(cx, &std::hint::black_box([1.0; COLUMNS * COLUMNS]), &mut least, &mut greatest);
    assert_eq!((least, greatest), ([1.0; COLUMNS], [1.0; COLUMNS]));
    let Some(text) = disassembly() else { return };
    let is_masked = |text: &str| text.starts_with("vmaskmov") || text.starts_with("vpmaskmov");
    let (mut function, mut vectors, mut masked) = ("", 0, Vec::new());
    for line in text.lines() {
        if line.ends_with(">:") {
            function = line;
        }
        let Some((_, text)) = line.trim().split_once(":\t") else { continue };
        vectors += usize::from(text.contains("%ymm"));
        if is_masked(text) && text.trim_end().ends_with(')') {
            masked.push(format!("{function} {text}"));
        }
    }
    assert!(vectors > 1000, "only {vectors} instructions with vectors of AVX2 found");
    assert!(masked.is_empty(), "masked stores: {masked:#?}");
}
