//! Compiled models on every instruction set of this machine: kernels, and the loops that define them.
//!
//! Pointwise results have the same bits everywhere; sums of products differ by rounding only.

use include_ir::Isa;

/// Numbers of both signs, none of them round.
fn numbers(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0).collect()
}

fn compare(what: &str, got: &[f32], want: &[f32], tolerance: f32) {
    let scale = want.iter().fold(0.0f32, |scale, x| scale.max(x.abs()));
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let equal = got.to_bits() == want.to_bits() || (got - want).abs() <= tolerance * scale;
        assert!(equal, "{what}: element {i} is {got}, not {want}");
    }
}

/// Models with one input and one output of f32, and by how much of their largest result instruction sets may differ.
macro_rules! models {
    ($($name:ident: $path:literal, $input:literal, $tolerance:expr, $output:ident;)*) => { $(
        mod $name {
            include_ir::include_ir!(mod kernels = $path);
            include_ir::include_ir!(mod reference = $path, kernels: reference);

            #[test]
            fn every_isa_agrees() {
                let x = super::numbers($input);
                let x: &[f32; $input] = x.first_chunk().unwrap();
                let (mut kernels, mut reference) = (kernels::Model::boxed(), reference::Model::boxed());
                assert!(reference.force_isa(super::Isa::Scalar));
                let want = reference.run(x).$output.to_vec();
                let mut sets = 0;
                for isa in super::Isa::ALL {
                    if !kernels.force_isa(isa) || !reference.force_isa(isa) {
                        continue;
                    }
                    sets += 1;
                    super::compare(&format!("kernels on {isa:?}"), kernels.run(x).$output, &want, $tolerance);
                    // The loops themselves have one order of summation.
                    super::compare(&format!("loops on {isa:?}"), reference.run(x).$output, &want, 0.0);
                }
                assert!(sets > 0);
            }
        }
    )* };
}

models! {
    digits: "../examples/digits/digits.xml", 64, 1e-5, probabilities;
    c2f: "cases/stress/c2f/model.xml", 1024, 1e-5, out0;
    wide_convolution: "cases/convolution/2d_wide_channels/model.xml", 297, 1e-5, out0;
    swish_behind_convolution: "cases/convolution/scale_shift_swish/model.xml", 100, 1e-5, out0;
    inverted_residual: "cases/group_convolution/inverted_residual/model.xml", 288, 1e-5, out0;
    depthwise: "cases/group_convolution/depthwise_bias_clamp/model.xml", 576, 1e-5, out0;
    minimal_filtering: "cases/minimal_filtering/epilogues/model.xml", 14688, 1e-4, out0;
    minimal_filtering_of_volumes: "cases/minimal_filtering/volumes_with_residual/model.xml", 16000, 1e-4, out0;
    packed_rows: "cases/packed_rows/strided_convolution/model.xml", 4752, 1e-5, out0;
    chain: "cases/chain/stem_and_pool/model.xml", 12276, 1e-5, out0;
    dense: "cases/matmul/dense_gelu_dense/model.xml", 160, 1e-5, out0;
    max_pool: "cases/max_pool/v1_3x3_padded/model.xml", 84, 0.0, out0;
    average_pool: "cases/avg_pool/v1_3x3_padded_include/model.xml", 84, 1e-6, out0;
    layer_norm: "cases/mvn/v6_layer_norm/model.xml", 160, 0.0, out0;
    layer_norm_by_parts: "cases/reduce/layer_norm_by_parts/model.xml", 160, 0.0, out0;
    softmax: "cases/softmax/softmax8_rank4_axis3_positive/model.xml", 60, 0.0, out0;
    log_softmax: "cases/softmax/logsoftmax5_rank4_axis1_positive/model.xml", 60, 0.0, out0;
    response_normalization: "cases/lrn/alexnet/model.xml", 48, 0.0, out0;
    running_sum: "cases/cumsum/f32_axis1/model.xml", 30, 0.0, out0;
    swish: "cases/activation/swish_beta/model.xml", 27, 0.0, out0;
}
