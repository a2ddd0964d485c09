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
import warnings
from pathlib import Path

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
warnings.filterwarnings("ignore")

import numpy as np
import openvino as ov
import torch

import library_architectures
import openvino_case
import own_architectures
from architectures import MODELS

assert library_architectures and own_architectures  # they fill MODELS

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


def build(name, root):
    torch.manual_seed(0)
    with torch.no_grad():
        module, inputs = MODELS[name]()
        module = Flat(module).eval()
        settle(module)
        expected = [tensor.numpy() for tensor in module(*inputs)]
        model = ov.convert_model(module, example_input=tuple(inputs), input=[list(i.shape) for i in inputs])
    arrays = [i.numpy() for i in inputs]
    scale = max([1e-3] + [float(np.abs(e).max()) for e in expected if e.dtype.kind == "f" and e.size])
    records = []
    for half in (False, True):
        case = f"{name}.{'f16' if half else 'f32'}"
        wanted = None if half else expected
        record = openvino_case.write(root / case, model, arrays, wanted, RELATIVE, ABSOLUTE * scale, half)
        oracle = "OpenVINO" if half else "torch"
        records.append({"case": case, "scale": scale, "oracle": oracle, **record})
    return records


def child(name, root, sender):
    try:
        sender.send(build(name, root))
    except Exception as error:
        sender.send(openvino_case.reason(f"{type(error).__name__}: {error}"))


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
