"""Times compiled models and OpenVINO alternately in one run, one thread, and prints the ratios as a table.

    cargo build --release -p include-ir-compiler --features cli
    python -m venv v && v/bin/pip install openvino==2026.4.1 numpy
    v/bin/python benches/against_openvino.py MODEL.xml ...

Every model is compiled by `irc` into one crate in a temporary folder, built in release, and run with the same random
input as OpenVINO's CPU plugin (f32, one thread, latency hint). Rounds alternate, because machines are shared and
their speed drifts; quote the ratio of the minima, OpenVINO's time over ours, and never a time alone.
"""

import argparse
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import openvino as ov

ROOT = pathlib.Path(__file__).resolve().parent.parent

MAIN = """use std::time::Instant;
{includes}
macro_rules! time {{
    ($module:ident, $size:expr) => {{{{
        let runs: u32 = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(1);
        let bytes = std::fs::read(std::env::args().nth(3).expect("a file of f32")).expect("the input");
        let x: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let x: &[f32; $size] = x[..].try_into().expect("the input's size");
        let mut model = $module::Model::boxed();
        std::hint::black_box(model.run(x));
        let mut best = f64::MAX;
        for _ in 0..runs {{
            let start = Instant::now();
            std::hint::black_box(model.run(x));
            best = best.min(start.elapsed().as_secs_f64());
        }}
        println!("{{}}", best * 1e3);
    }}}};
}}
fn main() {{
    match std::env::args().nth(1).as_deref() {{
{arms}
        _ => std::process::exit(2),
    }}
}}
"""


def build(folder, models, irc):
    """One crate that holds all models; returns its binary."""
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text(
        '[package]\nname = "timing"\nversion = "0.0.0"\nedition = "2024"\n[workspace]\n[dependencies.include-ir]\n'
        f'path = "{ROOT / "runtime-support"}"\ndefault-features = false\nfeatures = ["std"]\n'
    )
    names = {}
    for i, (path, model) in enumerate(models):
        names[path] = f"model{i}"
        subprocess.run([irc, "compile", path, "-o", folder / f"src/model{i}.rs", "--module", f"model{i}"], check=True)
    includes = "\n".join(f'include!("{name}.rs");' for name in names.values())
    arms = "\n".join(
        f'        Some("{names[path]}") => time!({names[path]}, {int(np.prod(model.input(0).shape))}),'
        for path, model in models
    )
    (folder / "src/main.rs").write_text(MAIN.format(includes=includes, arms=arms))
    subprocess.run(["cargo", "build", "--release", "-q"], cwd=folder, check=True)
    return folder / "target/release/timing", names


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--irc", default=str(ROOT / "target/release/irc"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="about this long per side and round")
    options = parser.parse_args()
    core = ov.Core()
    models = [(path, core.read_model(path)) for path in options.models]
    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    print("| model | OpenVINO ms | ours ms | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "timing"
        binary, names = build(folder, models, options.irc)
        for path, model in models:
            request = core.compile_model(model, "CPU", settings).create_infer_request()
            x = np.random.default_rng(1).standard_normal(list(model.input(0).shape)).astype(np.float32)
            (folder / "x.bin").write_bytes(x.tobytes())
            request.set_input_tensor(ov.Tensor(x))
            request.infer()
            start = time.perf_counter()
            request.infer()
            runs = max(3, min(1000, int(options.seconds / max(time.perf_counter() - start, 1e-6))))
            theirs, ours = [], []
            for _ in range(options.rounds):
                for _ in range(runs):
                    start = time.perf_counter()
                    request.infer()
                    theirs.append((time.perf_counter() - start) * 1e3)
                command = [binary, names[path], str(runs), folder / "x.bin"]
                ours.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            a, b = min(theirs), min(ours)
            print(f"| {pathlib.Path(path).stem} | {a:.3f} | {b:.3f} | {a / b:.2f} |", flush=True)


if __name__ == "__main__":
    main()
