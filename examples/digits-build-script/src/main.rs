//! Classifies handwritten digits with a model that `build.rs` compiles.

include_ir::include_model!("digits");

/// 360 images of 8 x 8 pixels, values 0 to 16, that training never saw.
static IMAGES: &[u8] = include_bytes!("../../digits/held_out.bin");
/// The digit on each of them.
static LABELS: &[u8] = include_bytes!("../../digits/held_out_labels.bin");

fn main() -> std::process::ExitCode {
    let mut model = digits::Model::boxed();
    let mut correct = 0;
    for (pixels, label) in IMAGES.chunks_exact(64).zip(LABELS) {
        let image: [f32; 64] = std::array::from_fn(|i| f32::from(pixels[i]) / 16.0);
        let probabilities = model.run(&image).probabilities;
        let digit = (0..10).max_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
        correct += usize::from(digit == Some(usize::from(*label)));
    }
    let accuracy = 100.0 * correct as f64 / LABELS.len() as f64;
    println!("{correct} of {} digits recognised: {accuracy:.1} %", LABELS.len());
    println!("arena {} bytes, weights {} bytes", digits::ARENA_BYTES, digits::WEIGHT_BYTES);
    if accuracy >= 97.0 { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
