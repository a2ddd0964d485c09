//! Mutations of valid models through the whole compiler and the interpreter: an error with its place, or a result; no
//! panic, no hang, no memory out of proportion to the file.

use include_ir_compiler::dim::Atom;
use include_ir_compiler::program::Program;
use include_ir_compiler::program::interpret::interpret;
use include_ir_compiler::source::Source;
use include_ir_compiler::tensor::Tensor;
use include_ir_compiler::{Options, Output, compile, stages};
use mutate::Random;
use peak_alloc::PeakAlloc;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "reader/mutate.rs"]
mod mutate;

#[global_allocator]
static PEAK: PeakAlloc = PeakAlloc;

const MODELS: &[&str] = &[
    "../examples/digits/digits",
    "cases/adaptive_avg_pool/global/model",
    "cases/attention/mask_with_infinity/model",
    "cases/attention/causal_layers/model",
    "cases/attention/projections/model",
    "cases/branches/training_form_1/model",
    "cases/broadcast/v3_bidirectional_both_grow/model",
    "cases/concatenations/dilated_window_over_part/model",
    "cases/convolution/bias_clamp_residual/model",
    "cases/convolution_backprop/output_shape_explicit_odd/model",
    "cases/einsum/implicit_transpose/model",
    "cases/few_channels/nested_parts/model",
    "cases/gather/v8_batch_matrix/model",
    "cases/group_convolution/3d_groups/model",
    "cases/if/run_time_true/model",
    "cases/interpolate/v11_nearest_i32/model",
    "cases/matmul/backwards_along_columns/model",
    "cases/max_pool/v8_dilated/model",
    "cases/one_hot/v1_axis1_i64/model",
    "cases/packed_rows/encoder_block/model",
    "cases/pad/v12_reflect_zero/model",
    "cases/recurrent_sequence/lstm_bidirectional/model",
    "cases/scatter_nd/v15_prod_i32/model",
    "cases/stress/c2f/model",
    "cases/stress/loop_with_growing_carried_tensor/model",
    "cases/stress/reshape_by_shape_of_bounded_batch5/model",
    "cases/stress/suppression_then_gather_2/model",
    "cases/strided_slice/new_axis/model",
    "cases/tile/plain/model",
    "cases/top_k/v1_max_index_axis0/model",
];

/// `INCLUDE_IR_MUTATIONS` gives another number.
const MUTATIONS: u64 = 1000;

/// Of one model, compilation and interpretation, unoptimised and on a busy machine.
const MOST_TIME: Duration = Duration::from_secs(20);

/// What a compilation may hold at one time: a fixed part, and this many times the size of the files.
const MEMORY: usize = 32 << 20;
const MEMORY_PER_BYTE: usize = 64;

/// Larger results are compiled, not computed.
const INTERPRETED_BYTES: usize = 8 << 20;
const INTERPRETED_OPERATIONS: u64 = 20_000_000;

struct Model {
    name: &'static str,
    xml: Vec<u8>,
    bin: Vec<u8>,
}

fn models() -> Vec<Model> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &'static str| {
        let xml = std::fs::read(root.join(format!("{name}.xml"))).unwrap_or_else(|error| panic!("{name}: {error}"));
        Model { name, xml, bin: std::fs::read(root.join(format!("{name}.bin"))).unwrap_or_default() }
    };
    MODELS.iter().copied().map(read).collect()
}

/// A model after one to three mutations: three quarters well-formed, the rest any damage of the text; some of the weights.
fn mutated(model: &Model, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let (mut xml, mut bin) = (model.xml.clone(), model.bin.clone());
    let well_formed = random.below(4) > 0;
    for _ in 0..=random.below(3) {
        match well_formed {
            true => mutate::change_value(&mut xml, random),
            false => mutate::apply(&mut xml, random),
        }
    }
    match random.below(12) {
        0 => bin.truncate(random.below(bin.len() + 1)),
        1 | 2 => {
            // Shapes and indices are weights too.
            let value = [0i64, 1, -1, 3, 7, 1 << 20, 1 << 40, i64::MAX, i64::MIN][random.below(9)].to_le_bytes();
            let start = random.below(bin.len() / 8 + 1) * 8;
            if let Some(word) = bin.get_mut(start..start + 8) {
                word.copy_from_slice(&value);
            }
        }
        _ => {}
    }
    (xml, bin)
}

/// Compiles, and tells whether the model was accepted.
fn accepted(xml: Vec<u8>, bin: Vec<u8>, random: &mut Random) -> bool {
    let size = xml.len() + bin.len();
    let source = match Source::from_memory("model.xml", xml, bin) {
        Ok(source) => source,
        Err(problems) => {
            assert!(problems.to_string().contains("model.xml:"), "no place: {problems}");
            return false;
        }
    };
    PEAK.reset_peak_usage();
    let before = PEAK.current_usage();
    let output = compile(&source, &Options::default());
    let used = PEAK.peak_usage().saturating_sub(before);
    assert!(used < MEMORY + MEMORY_PER_BYTE * size, "{used} bytes used for files of {size}");
    let output = match output {
        Ok(output) => output,
        Err(problems) => {
            for problem in problems.errors() {
                assert!(problem.span.is_some(), "no place: {problem}");
                assert!(!problem.message.contains("internal error"), "{problem}");
                assert!(problem.message.len() < 2000 && !problem.message.contains(char::is_control), "{problem}");
            }
            assert!(problems.has_errors() && problems.to_string().contains("model.xml:"), "no place: {problems}");
            return false;
        }
    };
    run(&source, &output, random);
    true
}

/// Interprets a model that is not too large.
fn run(source: &Source, output: &Output, random: &mut Random) {
    let program = stages::program(source, &Options::default()).expect("what compiled compiles again");
    let sizes = &output.sizes;
    if sizes.arena + sizes.state > INTERPRETED_BYTES || sizes.flops > INTERPRETED_OPERATIONS {
        return;
    }
    let Some(inputs) = inputs(&program, random) else { return };
    match interpret(&program, &inputs) {
        Ok(outputs) => assert_eq!(outputs.len(), program.outputs.len()),
        // Only what is known at run time may be wrong then.
        Err(problem) => assert!(!program.variables.is_empty(), "{problem}"),
    }
}

/// Inputs of some size within their bounds; `None` if they are large.
fn inputs(program: &Program, random: &mut Random) -> Option<Vec<Tensor>> {
    let mut some = |min: i64, max: i64| min + random.below((max - min).clamp(0, 8) as usize + 1) as i64;
    let sizes: Vec<i64> = program.variables.iter().map(|info| some(info.variable.min, info.variable.max)).collect();
    let size = |atom: &Atom| match atom {
        Atom::Variable(variable) => sizes[variable.id as usize],
        _ => 0,
    };
    let input = |(buffer, _): &(_, _)| {
        let buffer = program.buffer(*buffer);
        let dims: Vec<usize> =
            buffer.dims.iter().map(|dim| usize::try_from(dim.evaluate(&size)).ok()).collect::<Option<_>>()?;
        let count = dims.iter().try_fold(1usize, |count, dim| count.checked_mul(*dim))?;
        let bytes = buffer.element.storage_bytes(count).filter(|bytes| *bytes <= INTERPRETED_BYTES)?;
        Tensor::new(buffer.element, dims, vec![0; bytes].into())
    };
    program.inputs.iter().map(input).collect()
}

#[test]
fn a_mutated_model_is_refused_with_a_place_or_computes() {
    let models = models();
    let mutations = std::env::var("INCLUDE_IR_MUTATIONS").ok().and_then(|count| count.parse().ok());
    let mutations: u64 = mutations.unwrap_or(MUTATIONS);
    let (mut taken, mut failures) = (0, Vec::new());
    for seed in 0..mutations {
        let mut random = Random::new(seed);
        let model = &models[random.below(models.len())];
        let (xml, bin) = mutated(model, &mut random);
        let start = Instant::now();
        let result = catch_unwind(move || accepted(xml, bin, &mut random));
        let problem = match result {
            Ok(accepted) => {
                taken += u64::from(accepted);
                (start.elapsed() > MOST_TIME).then(|| format!("took {:?}", start.elapsed()))
            }
            Err(panic) => Some(panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".to_owned())),
        };
        failures.extend(problem.map(|problem| format!("seed {seed}, {}: {problem}", model.name)));
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    // Both kinds must occur, or the mutations test nothing.
    assert!(taken > mutations / 10 && taken < mutations * 9 / 10, "{taken} of {mutations} were accepted");
}
