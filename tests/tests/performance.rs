//! What may not get slower unnoticed, without a clock: which kernels models get, how many instructions a run takes, and how
//! much code there is.
//!
//! `UPDATE_EXPECT=1` writes the table of kernels anew. Instructions and code are measured on demand, because they take
//! builds of minutes: `INCLUDE_IR_INSTRUCTIONS=1 cargo test -p include-ir-tests --test performance -- --nocapture`;
//! with `INCLUDE_IR_UPDATE=1` the counts are written to `tests/golden/instructions.txt`.

use expect_test::expect_file;
use include_ir_compiler::options::{Accuracy, Emit};
use include_ir_compiler::source::Source;
use include_ir_compiler::{Options, compile};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Models that together have every kernel, below `tests`, with options.
const MODELS: &[(&str, &[(&str, &str)])] = &[
    ("../examples/digits/digits.xml", &[]),
    ("cases/stress/c2f/model.xml", &[]),
    ("cases/stress/c2f_and_head/model.xml", &[]),
    ("cases/stress/quantised_depthwise/model.xml", &[]),
    ("cases/stress/quantised_residual/model.xml", &[]),
    ("cases/stress/reshape_by_shape_of_bounded_batch1/model.xml", &[("shape", "x=1..8,3,4,4")]),
    ("cases/matmul/dense_bias_relu/model.xml", &[]),
    ("cases/matmul/dense_gelu_dense/model.xml", &[]),
    ("cases/matmul/attention/model.xml", &[]),
    ("cases/matmul/batch_edges_run_time/model.xml", &[]),
    ("cases/matmul/heads_edges_run_time/model.xml", &[]),
    ("cases/matmul/small_batch_run_time/model.xml", &[]),
    ("cases/scatter_elements/rows_sum/model.xml", &[]),
    ("cases/einsum/experts/model.xml", &[]),
    ("cases/matmul/small_heads_run_time/model.xml", &[]),
    ("cases/convolution_backprop/2d_strided/model.xml", &[]),
    ("cases/attention/causal/model.xml", &[]),
    ("cases/group_convolution/inverted_residual/model.xml", &[]),
    ("cases/chain/stem_and_pool/model.xml", &[]),
    ("cases/minimal_filtering/epilogues/model.xml", &[]),
    ("cases/channels/greatest_of_an_input/model.xml", &[]),
    ("cases/channels/few_of_long_lines/model.xml", &[]),
    ("cases/channels/long_lines/model.xml", &[]),
    ("cases/channels/long_lines_strided/model.xml", &[]),
    ("cases/channels/unit_lengths/model.xml", &[]),
    ("cases/channels/sums_of_channels/model.xml", &[]),
    ("cases/channels/sums_of_squares_of_channels/model.xml", &[]),
    ("cases/minimal_filtering/dilated/model.xml", &[]),
    ("cases/minimal_filtering/groups/model.xml", &[]),
    ("cases/compact/f16_many_rows/model.xml", &[]),
    ("cases/compact/i8_residual/model.xml", &[]),
    ("cases/compact/u4_groups_of_32_17/model.xml", &[]),
    ("cases/minimal_filtering/groups_of_shuffled_channels/model.xml", &[]),
    ("cases/minimal_filtering/volumes_with_residual/model.xml", &[]),
    ("cases/avg_pool/between_pointwise/model.xml", &[]),
    ("cases/max_pool/large_windows/model.xml", &[]),
    ("cases/reduce/batch_statistics/model.xml", &[]),
    ("cases/reduce/extremes_of_lines/model.xml", &[]),
    ("cases/select/long_rows/model.xml", &[]),
    ("cases/lrn/spatial_5/model.xml", &[]),
    ("cases/few_channels/function_of_few_columns/model.xml", &[]),
    ("cases/group_normalization/behind_a_convolution_6_groups2/model.xml", &[]),
    ("cases/group_normalization/behind_a_convolution_6_groups2_pooled/model.xml", &[]),
    ("cases/group_normalization/behind_a_convolution_10_groups1/model.xml", &[]),
    ("cases/orders/functions_of_planes/model.xml", &[]),
    ("cases/orders/convolution_as_truths/model.xml", &[]),
    ("cases/orders/product_as_i32/model.xml", &[]),
    ("cases/orders/weights_of_every_pixel/model.xml", &[]),
    ("cases/windows/eight_results_of_a_wide_window/model.xml", &[]),
    ("cases/windows/groups_of_one_result/model.xml", &[]),
    ("cases/windows/long_windows_strided/model.xml", &[]),
    ("cases/softmax/short_rows_12/model.xml", &[]),
    ("cases/softmax/short_rows_16/model.xml", &[]),
    ("cases/recurrent_sequence/lstm_bidirectional/model.xml", &[]),
    ("cases/branches/training_form_1/model.xml", &[]),
    ("cases/branches/training_form_2/model.xml", &[]),
    ("cases/branches/training_form_8/model.xml", &[]),
    ("cases/branches/asymmetric/model.xml", &[]),
    ("cases/branches/even/model.xml", &[]),
    ("cases/branches/strided/model.xml", &[]),
    ("cases/branches/matrices/model.xml", &[]),
    ("cases/branches/read_twice/model.xml", &[]),
    ("cases/batches/excited/model.xml", &[]),
    ("cases/batches/residual_of_three/model.xml", &[]),
    ("cases/concatenations/all_parts/model.xml", &[]),
    ("cases/concatenations/last_and_one_more/model.xml", &[]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn options(list: &[(&str, &str)]) -> Options {
    let mut options = Options::default();
    for (name, value) in list {
        options.set(name, value).unwrap();
    }
    options
}

/// Name of a model in tables: its folder, or its file if the folder is not its own.
fn name(model: &str) -> String {
    let path = Path::new(model);
    let name = if path.ends_with("model.xml") { path.parent().and_then(Path::file_name) } else { path.file_stem() };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn models_get_their_kernels() {
    let mut table = String::new();
    for (model, list) in MODELS {
        let output = compile(&Source::from_path(&root().join(model), None).unwrap(), &options(list)).unwrap();
        let mut counts: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        for step in &output.steps {
            let entry = counts.entry(step.kind).or_default();
            *entry = (entry.0 + 1, entry.1 + step.flops);
        }
        let (arena, live) = (output.sizes.arena, output.sizes.peak_live);
        assert!(arena <= live + live / 10, "{model}: an arena of {arena} bytes for {live} that live at one time");
        let _ = writeln!(table, "{}: arena {arena} bytes", name(model));
        for (kind, (steps, flops)) in counts {
            let _ = writeln!(table, "  {kind}: {steps} steps, {flops} flops");
        }
    }
    expect_file![root().join("golden/kernels.txt")].assert_eq(&table);
}

/// Sums are written over residuals that nothing reads again, and over no others.
#[test]
fn residuals_are_updated_in_place() {
    let cases = [
        ("blocks", true),
        ("blocks_of_areas", true),
        ("rows_of_products", true),
        ("views_of_the_sum", true),
        ("sums_in_several_passes", false),
        ("read_later", false),
        ("is_the_data", false),
        ("is_an_input", false),
        ("is_an_output", false),
        ("is_spread", false),
        ("is_transposed", false),
    ];
    for (case, in_place) in cases {
        let model = root().join(format!("cases/residual/{case}/model.xml"));
        let output = compile(&Source::from_path(&model, None).unwrap(), &Options::default()).unwrap();
        assert_eq!(output.text.contains("accumulate: true"), in_place, "{case}");
    }
}

/// Copies between orders move squares, where these are not too small; outputs are computed in the order of their operands first, operands
/// that lie across rows are copied, and products read neighbours.
#[test]
fn copies_between_orders_move_squares() {
    let text = |case: &str| {
        let model = root().join(format!("cases/orders/{case}/model.xml"));
        compile(&Source::from_path(&model, None).unwrap(), &Options::default()).unwrap().text
    };
    let cases = [
        ("planes_of_f16", 1),
        ("open_sizes_2x30x17", 1),
        ("depthwise", 2),
        ("loops_behind_a_convolution", 3),
        ("convolution", 2),
        ("two_lines", 1),
        ("many_axes", 0),
        ("softmax_over_21_classes", 2),
        ("sum_with_transposed", 1),
        ("sum_of_products_with_transposed", 1),
    ];
    for (case, copies) in cases {
        assert_eq!(text(case).matches("rt::Transpose {").count(), copies, "{case}");
    }
    assert!(text("shuffled_channels").contains("depth: 12"), "a product over shuffled channels");
}

/// Rows of which only the ends are clamped, mirrored, wrapped around or outside are copied in between; where every n-th element
/// is another, after the whole row.
#[test]
fn rows_are_copied_in_pieces() {
    let cases = [
        ("reflect_images", "x.row::<40>"),
        ("edge_images", "x.row::<40>"),
        ("symmetric_images", "x.row::<40>"),
        ("constant_images", "x.row::<40>"),
        ("reflect_one_row", "x.row::<300>"),
        ("reflect_run_time_41", "x.span("),
        ("edge_run_time_41", "x.span("),
        ("rolled_5_40", "x.row::<35>"),
        ("replaced_every_second", "x2.row::<20>"),
        ("replaced_part_of_every_third", "x2.row::<14>"),
        ("replaced_in_between", "x2.row::<26>"),
    ];
    for (case, row) in cases {
        let model = root().join(format!("cases/pieces/{case}/model.xml"));
        let text = compile(&Source::from_path(&model, None).unwrap(), &Options::default()).unwrap().text;
        let text: String = text.split_whitespace().collect();
        assert!(text.replace(",>", ">").contains(row), "{case}");
    }
}

/// Pixels of many channels, which share few sets of a cache, have a distance of their own where windows go over them.
#[test]
fn pixels_that_share_sets_lie_apart() {
    let distances = ["272", "528", "528", "528"];
    for (case, distance) in
        ["crowded", "crowded_images", "crowded_two_readers", "crowded_excited"].iter().zip(distances)
    {
        let model = root().join(format!("cases/chain/{case}/model.xml"));
        for isa in ["avx2", "scalar"] {
            let options = options(&[("isa", isa)]).emit(Emit::Program);
            let text = compile(&Source::from_path(&model, None).unwrap(), &options).unwrap().text;
            assert_eq!(text.contains(&format!(", {distance}]  //")), isa == "avx2", "{case} {isa}");
        }
    }
}

/// What regions and grids look up in images is looked up for all channels at once, where there are many: of a copy with
/// channels last, and the result is copied back.
#[test]
fn channels_are_looked_up_at_once() {
    let cases = [
        ("roi_align/many_channels_avg_0", 2, true),
        ("roi_align/many_channels_max_2", 2, true),
        ("roi_align/rotated_many_channels_counter_2", 2, true),
        ("roi_align/v9_asymmetric_avg_2", 0, false),
        ("roi_pooling/max_many_channels", 2, true),
        ("roi_pooling/bilinear_many_channels", 2, false),
        ("detectron_features/many_channels", 2, true),
        ("grid_sample/bicubic_many_channels", 2, false),
    ];
    for (case, copies, accumulates) in cases {
        let model = root().join(format!("cases/{case}/model.xml"));
        let text = compile(&Source::from_path(&model, None).unwrap(), &Options::default()).unwrap().text;
        assert_eq!(text.matches("rt::Transpose {").count(), copies, "{case}");
        assert_eq!(text.contains("let mut acc = ["), accumulates, "{case}");
    }
}

/// Of what is added to the gates of a GRU, one part is for another product: the others are a bias still.
#[test]
fn parts_of_constants_are_biases() {
    let model = root().join("cases/recurrent_sequence/gru_linear_before_reset_lengths/model.xml");
    let output = compile(&Source::from_path(&model, None).unwrap(), &Options::default()).unwrap();
    assert!(output.text.contains("bias: Some(") && !output.text.contains("then: Some("));
}

/// Networks of 16-bit floats take the kernels of f32, unless every result has to be rounded. Copies of such numbers do not convert.
#[test]
fn halves_take_kernels() {
    let text = |case: &str, accuracy| {
        let model = root().join(format!("cases/{case}/model.xml"));
        let options = Options::default().accuracy(accuracy);
        compile(&Source::from_path(&model, None).unwrap(), &options).unwrap().text
    };
    for case in ["halves/residual_f16", "halves/residual_bf16", "halves/attention_f16", "halves/borders_bf16"] {
        assert!(text(case, Accuracy::Auto).contains("rt::Contraction {"), "{case}");
        assert!(!text(case, Accuracy::Exact).contains("rt::Contraction {"), "{case}");
    }
    assert!(!text("orders/planes_of_f16", Accuracy::Auto).contains("to_f32"), "a copy");
}

/// Weights of products take the bits that the model has for them, unless sums have to be those of the model; tables, too.
#[test]
fn weights_keep_their_bits() {
    let compiled = |case: &str, accuracy| {
        let model = root().join(format!("cases/compact/{case}/model.xml"));
        compile(&Source::from_path(&model, None).unwrap(), &Options::default().accuracy(accuracy)).unwrap()
    };
    let cases = [
        ("u8_one_row", "Bytes", 256),
        ("i8_residual", "Bytes", 300),
        ("i8_pixels", "Bytes", 256),
        ("u4_groups_of_32_17", "Nibbles", 32),
        ("i4_groups_of_128", "Nibbles", 128),
        ("three_values", "Nibbles", 256),
        ("f16_columns", "Halves", 256),
        ("f16_table", "Halves", 256),
    ];
    for (case, form, group) in cases {
        let text = compiled(case, Accuracy::Auto).text;
        assert!(text.contains(&format!("form: rt::Form::{form}")), "{case}");
        assert!(text.contains(&format!("group: {group},")), "{case}");
        assert!(!compiled(case, Accuracy::Exact).text.contains("rt::Form"), "{case}");
    }
    let table = compiled("f16_table", Accuracy::Auto).weights.len();
    assert!(table < 2 * 300 * 256 * 2 + 4 * 20 * 256, "{table} bytes");
}

/// Pixels keep their channels together where their number is known at run time only.
#[test]
fn run_time_strides_have_an_order() {
    let model = root().join("cases/orders/enlarged_run_time_sizes/model.xml");
    let text = compile(&Source::from_path(&model, None).unwrap(), &Options::default()).unwrap().text;
    assert!(text.contains("row_mut::<16>"), "{text}");
}

/// A descriptor of extents that are known is no constant where rows lie at distances that are not.
#[test]
fn run_time_strides_are_no_constants() {
    let model = root().join("cases/matmul/first_of_7_rows/model.xml");
    let text = compile(&Source::from_path(&model, None).unwrap(), &Options::default()).unwrap().text;
    assert!(text.contains("let shape = rt::Contraction") && !text.contains("const SHAPE"), "{text}");
}

/// Attention over run-time sizes is one step, also where keys and values have sizes of their own that must be equal; of those that
/// no row sees, no scores are computed.
#[test]
fn attention_over_run_time_sizes_is_fused() {
    let cases = [
        ("tokens_33", false),
        ("causal_33", true),
        ("sequences_3", false),
        ("biased_2_33", false),
        ("hidden_2_33", false),
        ("cache_2_31", false),
    ];
    for (case, causal) in cases {
        let model = root().join(format!("cases/attention_sizes/{case}/model.xml"));
        let output = compile(&Source::from_path(&model, None).unwrap(), &Options::default()).unwrap();
        let fused = output.steps.iter().filter(|step| step.kind == "attention").count();
        assert_eq!(fused, 1, "{case}");
        assert_eq!(output.text.contains("seen: 1,"), causal, "{case}");
    }
}

/// Packed rows are multiplied with wide panels where few columns are left behind the last one.
#[test]
fn packed_rows_take_wide_panels() {
    for (case, panel) in [("columns_left_over", 48), ("medium_sums", 48), ("encoder_block", 32)] {
        let model = root().join(format!("cases/packed_rows/{case}/model.xml"));
        let text = compile(&Source::from_path(&model, None).unwrap(), &Options::default()).unwrap().text;
        assert!(text.contains(".run_packed("), "{case}");
        assert!(text.contains(&format!("panel: {panel},")), "{case}");
        assert!(panel == 48 || !text.contains("panel: 48"), "{case}");
    }
}

/// Groups of few channels become groups that fill vectors, unless that is forbidden or there is no partner for the last one.
#[test]
fn narrow_groups_are_merged() {
    let auto = Options::default();
    let exact = Options::default().accuracy(Accuracy::Exact);
    let cases = [
        ("groups_of_2", &auto, &[16][..]),
        ("groups_of_4_strided", &auto, &[16, 8]),
        ("groups_of_8", &auto, &[16]),
        ("groups_of_8", &exact, &[8]),
        ("three_groups_of_8", &auto, &[16, 8]),
    ];
    for (case, options, cols) in cases {
        let model = root().join(format!("cases/group_convolution/{case}/model.xml"));
        let text = compile(&Source::from_path(&model, None).unwrap(), options).unwrap().text;
        let all = text.lines().filter_map(|line| line.trim().strip_prefix("cols: ")?.strip_suffix(',')?.parse().ok());
        assert_eq!(all.collect::<Vec<usize>>()[1..=cols.len()], *cols, "{case}");
    }
}

/// The models in the folder `INCLUDE_IR_MODELS`: arenas of at most 1.1 times what lives at one time.
#[test]
fn arenas_of_given_models_are_tight() {
    let Some(folder) = std::env::var_os("INCLUDE_IR_MODELS") else {
        return println!("arenas: skipped; INCLUDE_IR_MODELS=DIR checks its models");
    };
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    for model in files.filter(|path| path.extension().is_some_and(|end| end == "xml")) {
        let sizes = compile(&Source::from_path(&model, None).unwrap(), &Options::default()).unwrap().sizes;
        println!("{}: arena {} bytes, live {}", model.display(), sizes.arena, sizes.peak_live);
        assert!(sizes.arena <= sizes.peak_live + sizes.peak_live / 10, "{}", model.display());
    }
}

/// The `irc` that this build belongs to.
fn bench(model: &Path, isa: &str, more: &[&str]) -> Result<BTreeMap<String, u64>, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = target.join("performance.json");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "-q", "-p", "include-ir-compiler", "--features", "cli", "--bin", "irc", "--", "bench"]);
    command.arg(model).args(["--isa", isa, "--target-dir"]).arg(target.join("cases")).arg("--json").arg(&file);
    let output = command.args(more).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
    let fields: BTreeMap<String, Value> = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    Ok(fields.into_iter().filter_map(|(key, value)| Some((key, value.as_u64()?))).collect())
}

fn on_demand(what: &str) -> bool {
    let wanted = std::env::var_os("INCLUDE_IR_INSTRUCTIONS").is_some();
    if !wanted {
        println!("{what}: skipped; INCLUDE_IR_INSTRUCTIONS=1 measures");
    }
    wanted
}

/// What runs of the smallest models may differ in from machine to machine.
const FEW: u64 = 300;

/// A run takes at most 3 % more instructions than the table says; much fewer ask for a new table.
#[test]
fn runs_take_their_instructions() {
    if !on_demand("instructions") {
        return;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: skipped; there is no valgrind");
        return;
    }
    let file = root().join("golden/instructions.txt");
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let (mut table, mut wrong) = (String::new(), Vec::new());
    for (model, _) in MODELS.iter().filter(|(_, options)| options.is_empty()) {
        let found = bench(&root().join(model), "avx2", &["--instructions"]).unwrap();
        let (name, count) = (name(model), found["instructions"]);
        let _ = writeln!(table, "{name} {count}");
        let before = known.lines().find_map(|line| line.strip_prefix(&format!("{name} "))?.parse::<u64>().ok());
        println!("{name}: {count} instructions, {before:?} before");
        if before.is_none_or(|before| count > before + before / 32 + FEW || count + count / 8 + FEW < before) {
            wrong.push(format!("{name}: {count} instructions, {before:?} in the table"));
        }
    }
    if std::env::var_os("INCLUDE_IR_UPDATE").is_some() {
        return std::fs::write(&file, table).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Bytes of code per instruction set; a report, because they change with every compiler.
#[test]
fn code_has_a_size() {
    if !on_demand("code size") {
        return;
    }
    for isa in ["scalar", "sse2", "avx2", "avx512"] {
        match bench(&root().join(MODELS[0].0), isa, &["--runs", "1"]) {
            Ok(found) => println!("{isa}: {} bytes of code", found.get("code_bytes").copied().unwrap_or(0)),
            Err(problem) => println!("{isa}: {problem}"),
        }
    }
}
