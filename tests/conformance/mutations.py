"""Mutates committed cases, asks OpenVINO and `irc`, and writes docs/mutations.md: `mutations.py IRC FOLDER [--count N]`.

OpenVINO runs in a process of its own, because some mutations kill it or let it allocate without end. What the two
disagree on and no hazard below explains is printed, and is a bug until somebody looked at it.
"""

import argparse
import collections
import json
import multiprocessing
import random
import re
import resource
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np

import mutate

CASES = Path(__file__).resolve().parents[1] / "cases"
DOCUMENT = CASES.parents[1] / "docs" / "mutations.md"
# Without an oracle: random numbers, strings.
LEFT_OUT = {"random", "random_uniform", "multinomial", "string", "reader", "names"}
LARGEST_FILE = 60_000
LARGEST_TENSOR = 1 << 22
SECONDS = 60
# What `irc` may use: bytes above those of an empty run, per byte of the files and at all.
MEMORY, MEMORY_PER_BYTE = 256 << 20, 64

# Where OpenVINO and the specification part, or OpenVINO's answer is no answer: outcome, what stands in the name of the
# base, in the message or in the difference, and why. The first that fits explains a disagreement.
HAZARDS = [
    ("differs", "^binary_convolution/", "OpenVINO reads the bits of binary kernels from the other end"),
    ("differs", "bf16", "OpenVINO rounds to bf16 in another way than to nearest, ties to even"),
    ("differs", "^scatter_", "CPU: truncated means of integers; an index out of range writes anywhere, here nowhere"),
    ("differs", "_f64: ", "CPU: f64 is computed in f32"),
    ("differs", "^(binary|bitwise|type_arithmetic|types|segment_max|cumsum|gather_tree|reduce)/", "CPU: integers are computed in 32 bits, and those of 8 bits saturate"),
    ("differs", "^prior_grid/", "CPU: attributes `h` and `w` are ignored"),
    ("differs", "^interpolate/v1", "the order of axes is ignored; the specification says that it matters"),
    ("differs", "^top_k/", "K of 0 means all to OpenVINO's shape inference and none to its kernels"),
    ("differs", "^(loop|tensor_iterator)/", "results concatenated along a part that is no 1: memory that nobody wrote"),
    ("differs", "^(avg_pool|adaptive_avg_pool)/", "CPU: means of integers are rounded, those of the reference truncated"),
    ("differs", "^non_max_suppression/", "CPU: the number of boxes that arrives at run time does not bound the result"),
    ("differs", "^unary/is_nan", "CPU: a denormal number is not finite"),
    ("differs", ": out.*is nan", "weights that are no numbers meet padding, which is 0 here and skipped there"),
    ("differs", "^reverse_sequence/", "CPU: a length beyond the axis reads outside; here it is the whole axis"),
    ("irc computes", "_empty: ", "OpenVINO does not stretch dimensions without elements under `pdpd`"),
    ("irc computes", "quantise|fake_quantize", "ends of intervals are stretched without `auto_broadcast` too"),
    ("irc computes", "decrease_label_id", "CPU: the two attributes exclude each other, nowhere else"),
    ("irc computes", "Unsupported|not support|Not Implemented|CALLBACK|RNNCellDecomposition|unsupported src_prc|create a primitive|unsupported input precision|not representable|K .0. must", "CPU: the operation or the element type is missing"),
    ("irc computes", "element type must be|type must be i32", "indices, axes and sizes of other integer types mean the same numbers"),
    ("irc computes", "must be sorted", "the maximum of a segment needs no order"),
    ("irc computes", "All masks", "a shorter mask is one that ends in zeros"),
]


def bases():
    folders = [f for f in sorted(CASES.glob("*/*")) if f.parent.name not in LEFT_OUT and (f / "expected.npz").exists()]
    return [f for f in folders if sum((f / n).stat().st_size for n in ("model.xml", "model.bin") if (f / n).exists()) < LARGEST_FILE]


def write(folder, count, seed):
    """Writes mutated models that differ from their bases."""
    cases = bases()
    texts = {case: (case / "model.xml").read_text() for case in cases}
    vocabulary = collections.defaultdict(set)
    for text in texts.values():
        for site in mutate.sites(text):
            vocabulary[site.name].add(text[site.start : site.end])
    for index in range(count):
        rng = random.Random(f"{seed} {index}")
        done, base, xml, data = [], None, "", b""
        while not done or (xml == texts[base] and data == original):
            base = rng.choice(cases)
            original = (base / "model.bin").read_bytes() if (base / "model.bin").exists() else b""
            xml, data, done = mutate.mutate(texts[base], original, vocabulary, rng)
        target = folder / f"{index:05}"
        target.mkdir(parents=True)
        (target / "model.xml").write_bytes(xml.encode())
        (target / "model.bin").write_bytes(data)
        record = {"base": str(base.relative_to(CASES)), "mutations": sorted({kind for kind, _ in done}), "changed": [what for _, what in done]}
        (target / "mutation.json").write_text(json.dumps(record) + "\n")


# ---- OpenVINO


def size(dimension, wished):
    """A size within the bounds of a dimension, and how to bound it in the option `shape`."""
    low, high = dimension.get_min_length(), dimension.get_max_length()
    unbounded = high < 0 or high > 1 << 31
    wanted = max(low, min(wished or 2, 1 << 31 if unbounded else high))
    return wanted, f"{low}..{max(wanted, 4)}" if unbounded else str(dimension) if dimension.is_dynamic else str(low)


def inputs_of(model, base):
    """Inputs for a model: those of its base where they fit, else numbers made up; and bounds where it has none."""
    import openvino_case as oc

    known = np.load(base / "inputs.npz")
    arrays, shapes = [], []
    for index, port in enumerate(model.inputs):
        shape, kind = port.get_partial_shape(), oc.element_type(port)
        if shape.rank.is_dynamic:
            raise ValueError("an input of unknown rank")
        old = known.get(f"in{index}", np.zeros(0))
        wished = old.shape if old.ndim == len(shape) else [None] * len(shape)
        sizes = [size(d, w) for d, w in zip(shape, wished)]
        dims = [s for s, _ in sizes]
        if any(d.is_dynamic and not 0 < d.get_max_length() <= 1 << 31 for d in shape):
            shapes.append(f"{port.get_node().get_friendly_name()}={','.join(text for _, text in sizes)}")
        if kind in ("u1", "nf4", "u3", "u6", "string") or np.prod([float(d) for d in dims]) > LARGEST_TENSOR:
            raise ValueError("a large input, or one that numpy cannot hold")
        if list(old.shape) == dims:
            values = old
        else:
            values = np.resize(old if old.size else np.arange(1, 8), dims)
        arrays.append(fitted(values, kind))
    return arrays, shapes


def fitted(values, kind):
    import openvino_case as oc

    if kind in oc.PLAIN:
        return values.astype(oc.PLAIN[kind])
    if kind in oc.STORED:
        return oc.stored(np.clip(values.astype(np.float64), 0, 3), kind) if values.dtype != oc.STORED[kind][0] else values
    return np.nan_to_num(values.astype(np.float64)).clip(0 if kind[0] == "u" else -128, 127).astype(np.dtype({"i": "int", "u": "uint"}[kind[0]] + kind[1:]))


def large(model):
    """Whether some tensor would be too large to compute."""
    for op in model.get_ordered_ops():
        for port in range(op.get_output_size()):
            shape = op.get_output_partial_shape(port)
            if shape.rank.is_static and np.prod([float(max(d.get_min_length(), 1)) for d in shape] or [1.0]) > LARGEST_TENSOR:
                return True
    return False


def ask_openvino(folder, base):
    """What OpenVINO makes of a model: refused, skipped or a result in expected.npz and reference.npz."""
    import openvino as ov
    import openvino_case as oc

    try:
        model = ov.Core().read_model(folder / "model.xml", folder / "model.bin")
    except Exception as error:
        return {"openvino": "refuses", "message": oc.reason(error)}
    names = sorted({op.get_type_name() for op in model.get_ops()})
    try:
        arrays, shapes = inputs_of(model, base)
        if large(model):
            raise ValueError("a large tensor")
    except (ValueError, TypeError, OverflowError, KeyError, MemoryError) as problem:
        return {"openvino": "skipped", "message": str(problem), "operations": names}
    oc.savez(folder / "inputs.npz", "in", arrays)
    record = {"openvino": "computes", "operations": names, "shapes": shapes, "kinds": [oc.element_type(p) for p in model.outputs]}
    (folder / "record.json").write_text(json.dumps(record))
    try:
        oc.savez(folder / "expected.npz", "out", oc.run_cpu(model, arrays))
    except Exception as error:
        record |= {"openvino": "fails", "message": oc.reason(error)}
    if "string" in record["kinds"] or {"f8e8m0", "u1", "nf4"} & set(record["kinds"]):
        return record
    (folder / "record.json").write_text(json.dumps(record))
    try:
        model = ov.Core().read_model(folder / "model.xml", folder / "model.bin")
        tensors = [ov.Tensor(p.get_element_type(), p.get_partial_shape().to_shape() if p.get_partial_shape().is_static else ov.Shape([0])) for p in model.outputs]
        if model.evaluate(tensors, [oc.tensor(v, p) for v, p in zip(arrays, model.inputs)]):
            oc.savez(folder / "reference.npz", "out", [oc.array(t) for t in tensors])
            record |= {"openvino": "computes"}
    except Exception:
        pass  # many operations have no reference in the wheel
    return record


def serve(pipe):
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    while (task := pipe.recv()) is not None:
        pipe.send(ask_openvino(*task))


class Server:
    """OpenVINO in another process, started again when it dies."""

    def __init__(self):
        self.process = None

    def start(self):
        self.pipe, other = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def ask(self, folder, base):
        if self.process is None:
            self.start()
        self.pipe.send((folder, base))
        try:
            if self.pipe.poll(SECONDS):
                return self.pipe.recv()
            problem = "hangs"
        except EOFError:
            problem = "crashes"
        self.process.kill()
        self.process.join()
        self.process = None
        known = folder / "record.json"
        record = json.loads(known.read_text()) if known.exists() else {}
        computed = (folder / "expected.npz").exists()
        return {**record, "openvino": "computes" if computed else problem, "message": problem}

    def stop(self):
        if self.process is not None:
            self.pipe.send(None)
            self.process.join()


# ---- irc


def ask_irc(irc, folder, record):
    """What `irc` makes of a model: refused with a place, computed, or a fault."""
    options = [word for shape in record.get("shapes", []) for word in ("--shape", shape)]
    runs = record["openvino"] in ("computes", "fails")
    if runs:
        command = [irc, "run", folder / "model.xml", "--interpret", "--inputs", folder / "inputs.npz", "--outputs", folder / "got.npz"]
    else:
        command = [irc, "compile", folder / "model.xml", "--out", folder / "model.rs"]
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    try:
        done = subprocess.run([*command, *options], capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"irc": "fault", "said": f"no result after {SECONDS} s"}
    said = done.stderr.decode(errors="replace").strip()
    seconds = time.monotonic() - start
    memory = max(0, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before) * 1024
    outcome = {"seconds": round(seconds, 2), "said": said}
    if done.returncode == 0:
        return {**outcome, "irc": "computes" if runs else "accepts"}
    located = all("model.xml" in message for message in re.split(r"^error", said, flags=re.M)[1:])
    if done.returncode < 0 or "internal error" in said or "panicked" in said or not located:
        return {**outcome, "irc": "fault"}
    if memory > MEMORY + MEMORY_PER_BYTE * sum(f.stat().st_size for f in folder.glob("model.*")):
        return {**outcome, "irc": "fault", "said": f"{memory} bytes used; {said}"}
    return {**outcome, "irc": "refuses"}


def compare(folder, record):
    """Whether one of OpenVINO's results is that of `irc`; else how it differs."""
    import openvino_case as oc

    got = np.load(folder / "got.npz")
    got = [got[f"out{i}"] for i in range(len(got.files))]
    base = CASES / json.loads((folder / "mutation.json").read_text())["base"]
    case = json.loads((base / "case.json").read_text()) if (base / "case.json").exists() else {}
    allowed = {"abs": 1e-5, "rel": 1e-3} | case.get("tolerance", {})
    problems = {}
    # A mutation that changes nothing keeps the numbers of the base, which stand on the specification.
    for oracle, path in [("cpu", folder / "expected.npz"), ("reference", folder / "reference.npz"), ("base", base / "expected.npz")]:
        if path.exists():
            arrays = np.load(path)
            want = [arrays[name] for name in sorted(arrays.files, key=lambda name: int(re.sub(r"\D", "", name) or 0))]
            largest = max([float(np.nanmax(np.abs(w[np.isfinite(w)]))) for w in want if w.dtype.kind == "f" and np.isfinite(w).any()] or [0.0])
            limits = oc.tolerance(record["kinds"], allowed["rel"], max(allowed["abs"], 1e-5 * largest))
            problems[oracle] = oc.difference(got, want, record["kinds"], limits) if len(got) == len(want) else f"{len(got)} outputs, expected {len(want)}"
    if None in problems.values():
        return None
    return "; ".join(f"{oracle}: {problem}" for oracle, problem in problems.items() if oracle != "base")


# ---- the table


def outcome(record):
    """One word on how the two agree."""
    openvino, irc = record["openvino"], record["irc"]
    if irc == "fault":
        return "irc fails"
    if irc == "refuses":
        return "irc refuses"
    if openvino == "computes":
        return "differs" if record.get("difference") else "agrees"
    return "irc computes"


PREFACE = """# Mutations

What becomes of damaged models: {count} random mutations of {bases} cases of this project, two thirds of them one change
and most of them well-formed XML, were given to OpenVINO 2026.4.1 and to `irc`. Made by `tests/conformance/mutations.py` (see its
[README](../tests/conformance/README.md)); `cargo test -p include-ir-tests --test mutations` runs others without OpenVINO.

* *agrees*: the numbers are those of the CPU plugin, of the reference, or, where the mutation changes none, of the case.
* *irc refuses*: an error with its place in the file. Where OpenVINO computes, that is strictness: words that are no
  booleans, ids given twice, element types that an operation does not have, sizes without a bound.
* *irc fails*: a panic, no result within a minute, an error without a place, or memory out of proportion to the file.
"""

ROWS = ["computes", "refuses", "fails", "crashes", "hangs", "skipped"]
COLUMNS = ["agrees", "differs", "irc refuses", "irc computes", "irc fails"]


def explained(record):
    text = f"{record['base']}: {record.get('message', '')} {record['difference'] or ''}"
    for what, pattern, reason in HAZARDS:
        if what == outcome(record) and re.search(pattern, text):
            return reason
    return None


def table(records, key, rows):
    lines = [f"| {' | '.join(['', *COLUMNS])} |", f"|{'---|' * (len(COLUMNS) + 1)}"]
    for row in rows:
        mine = collections.Counter(outcome(record) for record in records if row in key(record))
        if mine:
            lines.append(f"| {row} | {' | '.join(str(mine[column]) for column in COLUMNS)} |")
    return [*lines, ""]


def document(records):
    """The figures as Markdown."""
    out = [PREFACE.format(count=len(records), bases=len({r["base"] for r in records}))]
    out += table(records, lambda r: [f"OpenVINO {r['openvino']}"], [f"OpenVINO {row}" for row in ROWS])
    out += ["By what was changed; a model may count in two rows:", ""]
    out += table(records, lambda r: r["mutations"], mutate.WEIGHTS)
    found = collections.Counter((outcome(r), explained(r)) for r in records if open_question(r))
    out += ["The disagreements, by the hazard of the oracle (an operation and a message) that explains each; a dozen were traced one by one:", "", "| outcome | models | why |", "|---|---|---|"]
    for what, pattern, reason in HAZARDS:
        if found[what, reason]:
            out.append(f"| {what} | {found[what, reason]} | {reason} |")
    out += [f"| {what} | {count} | not explained |" for (what, reason), count in found.items() if reason is None]
    return "\n".join(out) + "\n"


def open_question(record):
    silent = record["openvino"] in ("skipped", "crashes", "hangs") and outcome(record) == "irc computes"
    return not silent and outcome(record) in ("differs", "irc computes", "irc fails")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("irc")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=1200)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--again", action="store_true", help="ask irc again about the models and results of the last run")
    options = parser.parse_args()
    results = options.folder / "results.json"
    if not options.again:
        shutil.rmtree(options.folder, ignore_errors=True)
        write(options.folder, options.count, options.seed)
    known = {r["case"]: r for r in map(json.loads, results.read_text().splitlines())} if options.again else {}
    server, records = Server(), []
    with results.open("w") as file:
        for folder in sorted(f for f in options.folder.iterdir() if f.is_dir()):
            mutation = json.loads((folder / "mutation.json").read_text())
            record = known.get(folder.name) or {"case": folder.name, **mutation, **server.ask(folder, CASES / mutation["base"])}
            record |= ask_irc(options.irc, folder, record)
            record["difference"] = compare(folder, record) if record["irc"] == "computes" and record["openvino"] == "computes" else None
            records.append(record)
            file.write(json.dumps(record) + "\n")
            file.flush()
    server.stop()
    DOCUMENT.write_text(document(records))
    for record in records:
        if open_question(record) and not explained(record):
            print(f"{record['case']} {record['base']}: {'; '.join(record['changed'])}")
            print(f"  openvino {record['openvino']} {record.get('message', '')}; {outcome(record)} {record['difference'] or ''}")
            print("\n".join(f"  {line}" for line in record["said"].splitlines()[:3]))


if __name__ == "__main__":
    main()
