//! Classifies the held-out digits and prints accuracy and sizes, without `core::fmt`, whose code can panic.
use crate::digits;

const PIXELS: usize = 64;
static IMAGES: &[u8] = include_bytes!("../../digits/held_out.bin");
static LABELS: &[u8] = include_bytes!("../../digits/held_out_labels.bin");

/// Classifies all images. True if the accuracy is at least 97 % and the stack stayed within the model's estimate.
///
/// `print` takes text; `stack_used` tells how many bytes of stack have been used below its caller so far.
pub fn evaluate(model: &mut digits::Model, print: &mut dyn FnMut(&[u8]), stack_used: fn() -> usize) -> bool {
    let mut correct = 0;
    for (image, label) in IMAGES.as_chunks().0.iter().zip(LABELS) {
        correct += usize::from(classify(model, image) == *label);
    }
    // Before anything is printed: printing needs stack too.
    let stack = stack_used();
    let images = LABELS.len();
    line(print, b"images", images);
    line(print, b"correct", correct);
    line(print, b"accuracy_permille", (correct * 1000).checked_div(images).unwrap_or(0));
    line(print, b"arena_bytes", digits::ARENA_BYTES);
    line(print, b"weight_bytes", digits::WEIGHT_BYTES);
    line(print, b"stack_bytes", digits::STACK_BYTES);
    line(print, b"stack_bytes_used", stack);
    line(print, b"multiply_adds", digits::FLOPS as usize / 2);
    #[cfg(feature = "deliberate-panic")]
    assert!(core::hint::black_box(correct) < images, "deliberate");
    correct * 100 >= images * 97 && stack <= digits::STACK_BYTES
}

/// The digit in an image of 8 x 8 pixels with values 0..=16.
fn classify(model: &mut digits::Model, pixels: &[u8; PIXELS]) -> u8 {
    let mut image = [0.0; PIXELS];
    for (x, pixel) in image.iter_mut().zip(pixels) {
        *x = f32::from(*pixel) / 16.0;
    }
    let mut best = (0, f32::NEG_INFINITY);
    for (digit, probability) in (0..).zip(infer(model, &image)) {
        if *probability > best.1 {
            best = (digit, *probability);
        }
    }
    best.0
}

/// One run of the model; a function of its own so that a profile shows its cost.
#[inline(never)]
fn infer<'m>(model: &'m mut digits::Model, image: &[f32; PIXELS]) -> &'m [f32; 10] {
    model.run(image).probabilities
}

/// Prints `name value`.
fn line(print: &mut dyn FnMut(&[u8]), name: &[u8], value: usize) {
    let mut digits = [0; 20];
    let (mut rest, mut length) = (value, 0);
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        (rest, length) = (rest / 10, length + 1);
        if rest == 0 {
            break;
        }
    }
    let start = digits.len() - length;
    print(name);
    print(b" ");
    print(digits.get(start..).unwrap_or_default());
    print(b"\n");
}
