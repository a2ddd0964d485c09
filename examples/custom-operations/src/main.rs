//! Runs a model that contains operations of this program: a median filter, then a Gaussian.

mod median;

include_ir::include_model!("filter");

fn main() -> std::process::ExitCode {
    let mut model = filter::Model::boxed();
    // A slope with two outliers, which the median removes.
    let mut signal: [f32; 16] = std::array::from_fn(|i| i as f32 * 0.1);
    (signal[4], signal[9]) = (50.0, -50.0);
    let smooth = model.run(&signal).weight;
    println!("{smooth:.3?}");
    // Without the outliers, the weights fall along the slope.
    let falls = smooth.windows(2).all(|pair| pair[1] <= pair[0]);
    let first = (smooth[0] - (-0.5 * 0.1f32 * 0.1 / 0.25).exp()).abs();
    if falls && first < 1e-6 { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
}
