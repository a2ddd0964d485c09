//! Compiled models on several threads: the same bits as on one, with a team of their own or a shared one.

use include_ir::Team;

/// Numbers of both signs, none of them round.
fn numbers(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0).collect()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Models with one input and one output of f32.
macro_rules! models {
    ($($name:ident: $path:literal, $input:literal, $output:ident;)*) => { $(
        mod $name {
            include_ir::include_ir!(mod model = $path);

            #[test]
            fn any_number_of_threads_gives_the_same_bits() {
                let x = super::numbers($input);
                let x: &[f32; $input] = x.first_chunk().unwrap();
                let mut model = model::Model::boxed();
                let want = super::bits(model.run(x).$output);
                for threads in [2, 3, 8, 1] {
                    model.set_threads(threads);
                    for _ in 0..3 {
                        assert_eq!(super::bits(model.run(x).$output), want, "{threads} threads");
                    }
                }
            }

            #[test]
            fn models_share_a_team() {
                let x = super::numbers($input);
                let x: &[f32; $input] = x.first_chunk().unwrap();
                let want = super::bits(model::Model::boxed().run(x).$output);
                let team = super::Team::new(3);
                std::thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| {
                            let mut model = model::Model::boxed();
                            model.set_team(&team);
                            for _ in 0..3 {
                                assert_eq!(super::bits(model.run(x).$output), want);
                            }
                        });
                    }
                });
            }
        }
    )* };
}

models! {
    digits: "../examples/digits/digits.xml", 64, probabilities;
    minimal_filtering: "cases/minimal_filtering/epilogues/model.xml", 14688, out0;
    minimal_filtering_of_volumes: "cases/minimal_filtering/volumes_with_residual/model.xml", 16000, out0;
    packed_rows: "cases/packed_rows/strided_convolution/model.xml", 4752, out0;
    encoder_block: "cases/packed_rows/encoder_block/model.xml", 2600, out0;
    chain: "cases/chain/stem_and_pool/model.xml", 12276, out0;
    inverted_residual: "cases/group_convolution/inverted_residual/model.xml", 288, out0;
    divided_sums: "cases/reduce/statistics_long/model.xml", 80, out0;
    layer_norm: "cases/mvn/v6_layer_norm/model.xml", 160, out0;
}
