"""Writes the small models of docs/measurements.md that end in channels, with seeded random weights in f32, as IR.

    python -m venv v && v/bin/pip install openvino==2026.4.1 numpy
    v/bin/python endings.py DIR

The product and its tests need neither these files nor Python.
"""

import pathlib
import sys

import numpy as np
import openvino as ov
from openvino import opset13 as op

RANDOM = np.random.default_rng(0)


def weights(*shape):
    return op.constant((RANDOM.standard_normal(shape) * 0.1).astype(np.float32))


def integers(*values):
    return op.constant(np.array(values, np.int64))


def convolution(x, outputs, inputs, size, stride):
    pad = [size // 2] * 2
    y = op.convolution(x, weights(outputs, inputs, size, size), [stride] * 2, pad, pad, [1, 1])
    return op.relu(op.add(y, weights(1, outputs, 1, 1)))


def classes(x, count, hidden=32, stride=2):
    return convolution(convolution(x, hidden, 3, 3, stride), count, hidden, 1, 1)


def shuffled(x, channels, height):
    """A block of ShuffleNetV2: half of the channels pass a depthwise convolution between two of single pixels."""
    half = channels // 2
    first, second = op.split(x, op.constant(1), 2).outputs()
    y = convolution(second, half, half, 1, 1)
    y = op.add(op.group_convolution(y, weights(half, 1, 1, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1]), weights(1, half, 1, 1))
    y = op.concat([first, convolution(y, half, half, 1, 1)], 1)
    y = op.transpose(op.reshape(y, integers(1, 2, half, height, height), False), integers(0, 2, 1, 3, 4))
    return op.reshape(y, integers(1, channels, height, height), False)


def shufflenet(x):
    y = convolution(x, 116, 3, 3, 2)
    for _ in range(4):
        y = shuffled(y, 116, 28)
    return op.reduce_mean(y, integers(2, 3), True)


def depth_to_space(x):
    return op.depth_to_space(convolution(convolution(x, 64, 3, 5, 1), 48, 64, 3, 1), "blocks_first", 4)


def resize(x):
    return op.interpolate(classes(x, 21, 64, 4), integers(512, 512), "linear_onnx", "sizes", axes=integers(2, 3))


MODELS = {f"softmax{n}": (lambda x, n=n: op.softmax(classes(x, n), 1), (1, 3, 256, 256)) for n in (2, 4, 8, 21)} | {
    "log_softmax8": (lambda x: op.log_softmax(classes(x, 8), 1), (1, 3, 256, 256)),
    "arg_max21": (
        lambda x: op.topk(classes(x, 21, 64), op.constant(np.int64(1)), 1, "max", "value").output(1),
        (1, 3, 256, 256),
    ),
    "resize": (resize, (1, 3, 512, 512)),
    "depth_to_space": (depth_to_space, (1, 3, 128, 128)),
    "shufflenet": (shufflenet, (1, 3, 56, 56)),
}

if __name__ == "__main__":
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, (build, shape) in MODELS.items():
        x = op.parameter(list(shape), np.float32)
        ov.save_model(ov.Model([build(x)], [x]), directory / f"{name}.xml", compress_to_fp16=False)
