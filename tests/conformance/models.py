"""Builds well-known architectures with random weights as case directories: `models.py FOLDER [PATTERN..]`.

Needs torch, torchvision, timm and transformers besides what the node tests need. Every model becomes two cases: `NAME.f32`,
expected to give what torch gives, and `NAME.f16`, saved with weights in f16 and expected to give what OpenVINO's CPU plugin
gives for that file.
"""

import fnmatch
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
warnings.filterwarnings("ignore")

import numpy as np
import openvino as ov
import timm
import torch
import torchvision
import transformers.modeling_utils
from openvino._offline_transformations import apply_make_stateful_transformation

import detection_architectures
import language_architectures
import library_architectures
import openvino_case
import own_architectures
import vision_architectures
from architectures import MODELS
from quantise import quantise
from recipes import Recipe

# Loaded once, before there are children.
assert timm and torchvision and transformers

# They fill MODELS.
assert detection_architectures and language_architectures and library_architectures and own_architectures
assert vision_architectures

FORK = multiprocessing.get_context("fork")

# Relative to the largest expected value: sums of thousands of products in another order.
ABSOLUTE, RELATIVE = 1e-4, 1e-3


def flat(value):
    """All tensors of an output, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    return [tensor for part in value if part is not None for tensor in flat(part)]


class Flat(torch.nn.Module):
    """A model that takes tensors by position and gives a tuple of tensors."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return tuple(flat(self.model(*inputs)))


def settle(module):
    """Weights and statistics of normalisations that are neither zero nor one, so that nothing is an identity."""
    generator = torch.Generator().manual_seed(1)
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._NormBase) and part.running_mean is not None:
            part.running_mean.normal_(0, 0.1, generator=generator)
            part.running_var.uniform_(0.5, 1.5, generator=generator)
        if isinstance(part, (torch.nn.LayerNorm, torch.nn.BatchNorm2d, torch.nn.GroupNorm)):
            for parameter, change in ((part.weight, lambda p: p.uniform_(0.8, 1.2, generator=generator)),
                                      (part.bias, lambda p: p.normal_(0, 0.1, generator=generator))):
                if parameter is not None:
                    change(parameter.data)


def open_sizes(shape):
    """What the file says of sizes like `1,0..16,8`: nothing about those that are open."""
    return [-1 if ".." in size else int(size) for size in shape.split(",")]


def convert(recipe, module):
    """The OpenVINO model, its inputs named `in0`, `in1`, .. and its outputs `out0`, .."""
    if recipe.onnx:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            torch.onnx.export(module, tuple(recipe.inputs), path, dynamo=False)
            model = ov.convert_model(path)
    else:
        shapes = [list(i.shape) for i in recipe.inputs]
        for index, shape in recipe.shapes.items():
            bounded = index in recipe.state
            shapes[index] = ov.PartialShape(f"[{shape}]") if bounded else ov.PartialShape(open_sizes(shape))
        model = ov.convert_model(module, example_input=tuple(recipe.inputs), input=shapes)
    for kind, ports in (("in", model.inputs), ("out", model.outputs)):
        for index, port in enumerate(ports):
            port.get_node().set_friendly_name(f"{kind}{index}")
            port.get_tensor().set_names({f"{kind}{index}"})
    if recipe.quantised:
        model = quantise(model, [i.numpy() for i in recipe.inputs])
    if recipe.state:
        stored = {f"in{into}": f"out{out}" for into, out in recipe.state.items()}
        apply_make_stateful_transformation(model, stored)
    return model


def expect(recipe, module):
    """What torch gives in every run, without what is state."""
    results = []
    empty = lambda index: torch.zeros([int(s.split("..")[0]) for s in recipe.shapes[index].split(",")])
    state = {index: empty(index) for index in recipe.state}
    for inputs in recipe.runs or [recipe.inputs]:
        given = list(inputs)
        for index in sorted(state):
            given.insert(index, state[index])
        outputs = module(*given)
        state = {index: outputs[out] for index, out in recipe.state.items()}
        kept = [output for index, output in enumerate(outputs) if index not in recipe.state.values()]
        results.append([tensor.numpy() for tensor in kept])
    return results


def build(name, root):
    torch.manual_seed(0)
    with torch.no_grad():
        made = MODELS[name]()
        recipe = made if isinstance(made, Recipe) else Recipe(*made)
        module = Flat(recipe.module).eval()
        settle(module)
        expected = expect(recipe, module)
        model = convert(recipe, module)
    runs = [[i.numpy() for i in inputs] for inputs in recipe.runs or [recipe.inputs]]
    scale = max([1e-3] + [float(np.abs(e).max()) for run in expected for e in run if e.dtype.kind == "f" and e.size])
    allowed = {"relative": RELATIVE, "absolute": ABSOLUTE * scale}
    options = {"shape": [f"in{index}={shape}" for index, shape in recipe.shapes.items() if index not in recipe.state]}
    options = {**recipe.options, **({"steps": len(runs), **options} if recipe.runs else {})}
    plain = not (recipe.onnx or recipe.shapes or recipe.quantised)
    records = []
    for half in (False, True) if plain else (False,):
        case = f"{name}.{'f16' if half else 'f32'}"
        wanted = None if half or recipe.quantised else expected
        record = openvino_case.write_runs(root / case, model, runs, wanted, half=half, options=options, **allowed)
        oracle = "torch" if wanted else "OpenVINO"
        records.append({"case": case, "scale": scale, "oracle": oracle, **record})
    return records


def child(name, root, sender):
    try:
        sender.send(build(name, root))
    except Exception as error:
        kind = type(error).__name__
        sender.send(openvino_case.reason(error if kind == "OpConversionFailure" else f"{kind}: {error}"))


def attempt(name, root):
    """The records of a model. It has a process of its own: one that dies costs only itself."""
    receiver, sender = FORK.Pipe(False)
    process = FORK.Process(target=child, args=(name, root, sender))
    process.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        result = "the process dies"
    process.join()
    if isinstance(result, list):
        return result
    for half in ("f16", "f32"):
        shutil.rmtree(root / f"{name}.{half}", ignore_errors=True)
    return [{"case": name, "skipped": result}]


def main(root, *patterns):
    root.mkdir(parents=True, exist_ok=True)
    index = root / "index.json"
    lines = index.read_text().splitlines() if index.exists() else []
    records = {record["case"]: record for record in map(json.loads, lines)}
    for name in sorted(MODELS):
        if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns or "*"):
            continue
        made = attempt(name, root)
        for case in (name, f"{name}.f16", f"{name}.f32"):
            records.pop(case, None)
        records.update({record["case"]: record for record in made})
        index.write_text("".join(json.dumps(records[case]) + "\n" for case in sorted(records)))
        print(name, made[0].get("skipped") or [record["openvino"] for record in made], flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
