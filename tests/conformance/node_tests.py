"""Converts the node tests of the onnx package with OpenVINO into case directories: `node_tests.py FOLDER [PATTERN..]`."""

import fnmatch
import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import openvino as ov
from onnx.backend.test.loader import load_model_tests

import openvino_case

warnings.filterwarnings("ignore")


def tests(*patterns):
    matches = lambda test: any(fnmatch.fnmatch(test.name, pattern) for pattern in patterns)
    return sorted(filter(matches, load_model_tests(kind="node")), key=lambda test: test.name)


def values(list_of_values):
    """numpy arrays of what a test holds; sequences and optional values stay what they are."""
    arrays = (onnx.numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in list_of_values)
    return [v if v is None or isinstance(v, list) else np.asarray(v) for v in arrays]


def constant_inputs(test, inputs):
    """The model with all inputs as constants but the first one, or but none if there is only one."""
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    known = dict(zip([i.name for i in model.graph.input], inputs))
    chosen = list(model.graph.input)
    for value in chosen[1:] or chosen:
        model.graph.initializer.append(onnx.numpy_helper.from_array(known[value.name], value.name))
        model.graph.input.remove(value)
    return model, [known[i.name] for i in model.graph.input]


def in_order(model, onnx_model, arrays):
    """The values for the Parameters, which are found by their tensor names."""
    named = dict(zip([i.name for i in onnx_model.graph.input], arrays))
    return [next((named[n] for n in port.get_names() if n in named), None) for port in model.inputs]


def write(folder, onnx_model, model, inputs, test):
    inputs = in_order(model, onnx_model, inputs)
    if any(value is None for value in inputs):
        raise ValueError("a Parameter has no ONNX input")
    expected = values(test.data_sets[0][1])
    if len(expected) != len(model.outputs):
        raise ValueError(f"{len(model.outputs)} outputs, ONNX has {len(expected)}")
    # What a user would say who knows the sizes of inputs and outputs; intermediate results may be somewhat larger.
    bound = -(-5 * max([v.size for v in [*inputs, *expected]] + [1]) // 4)
    return openvino_case.write(folder, model, inputs, expected, test.rtol, test.atol, bound=bound)


def convert(test, root):
    """One record per case made from a test, or one that says why there is none."""
    inputs, outputs = map(values, test.data_sets[0])
    if any(isinstance(v, list) or v is None for v in [*inputs, *outputs]):
        return [{"case": test.name, "skipped": "an input or output is a sequence or optional"}]
    try:
        model = ov.Core().read_model(test.model.SerializeToString())
        record = write(root / test.name, test.model, model, inputs, test)
    except Exception as error:
        shutil.rmtree(root / test.name, ignore_errors=True)
        return [{"case": test.name, "skipped": openvino_case.reason(error)}]
    records = [{"case": test.name, **record}]
    variants = [("simplified", lambda: (test.model, ov.convert_model(test.model), inputs))]
    if not record["static"]:
        constant, rest = constant_inputs(test, inputs)
        variants.append(("constant", lambda: (constant, ov.Core().read_model(constant.SerializeToString()), rest)))
    for suffix, make in variants:
        name = f"{test.name}.{suffix}"
        try:
            onnx_model, model, arrays = make()
            record = write(root / name, onnx_model, model, arrays, test)
        except Exception:
            shutil.rmtree(root / name, ignore_errors=True)
            continue
        if record["operations"] == records[0]["operations"] and suffix == "simplified":
            shutil.rmtree(root / name)
        else:
            records.append({"case": name, **record})
    return records


def worker(root, names):
    """Prints one line of JSON per test."""
    for test in tests(*names):
        print(json.dumps({"test": test.name, "records": convert(test, root)}), flush=True)


def main(root, *patterns):
    """Runs workers until all tests are done: a test that kills OpenVINO costs one worker."""
    root.mkdir(parents=True, exist_ok=True)
    pending, records = [test.name for test in tests(*(patterns or "*"))], []
    made = set(pending)
    while pending:
        command = [sys.executable, __file__, "--worker", str(root), *pending]
        lines = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()
        done = [json.loads(line) for line in lines]
        records += [record for entry in done for record in entry["records"]]
        pending = pending[len(done) :]
        if pending:
            name = pending.pop(0)
            shutil.rmtree(root / name, ignore_errors=True)
            records.append({"case": name, "skipped": "OpenVINO dies"})
    index = root / "index.json"
    known = [json.loads(line) for line in index.read_text().splitlines()] if index.exists() else []
    records += [record for record in known if record["case"].split(".")[0] not in made]
    records.sort(key=lambda record: record["case"])
    index.write_text("".join(json.dumps(record) + "\n" for record in records))
    cases = sum("skipped" not in record for record in records)
    print(f"{len(made)} tests converted, {cases} cases in {root}")


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker(Path(sys.argv[2]), sys.argv[3:])
    else:
        main(Path(sys.argv[1]), *sys.argv[2:])
