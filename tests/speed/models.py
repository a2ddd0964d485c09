"""Writes the models of docs/performance.md, with seeded random weights in f32, as IR and as ONNX.

    python -m venv v && v/bin/pip install openvino==2026.4.1 onnx==1.23.2 torch torchvision timm numpy
    v/bin/python models.py DIR [PATTERN ...]

The product and its tests need neither these files nor Python.
"""

import fnmatch
import pathlib
import sys

import numpy as np
import onnx
import openvino as ov
import timm
import torch
import torchvision
from onnx import TensorProto, helper, numpy_helper

import networks


class Graph:
    """An ONNX graph that grows node by node."""

    def __init__(self):
        self.nodes, self.constants, self.random = [], [], np.random.default_rng(0)

    def constant(self, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def weights(self, *shape, scale=None):
        scale = scale or max(1, np.prod(shape[1:])) ** -0.5
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def add(self, kind, *inputs, **attributes):
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def convolution(self, x, inputs, outputs, size, stride=1, groups=1, act=None, pad=None):
        pads = [size // 2 if pad is None else pad] * 4
        weights, bias = self.weights(outputs, inputs // groups, size, size), self.weights(outputs, scale=0.1)
        y = self.add("Conv", x, weights, bias, strides=[stride] * 2, pads=pads, kernel_shape=[size] * 2, group=groups)
        if act == "relu6":
            return self.add("Clip", y, self.constant(np.float32(0)), self.constant(np.float32(6)))
        return self.add("Relu", y) if act else y

    def dense(self, x, inputs, outputs):
        return self.add("Gemm", x, self.weights(outputs, inputs), self.weights(outputs, scale=0.1), transB=1)

    def linear(self, x, inputs, outputs):
        y = self.add("MatMul", x, self.weights(inputs, outputs, scale=inputs**-0.5))
        return self.add("Add", y, self.weights(outputs, scale=0.02))

    def norm(self, x, width):
        scale, bias = self.constant(np.ones(width, np.float32)), self.constant(np.zeros(width, np.float32))
        return self.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def pooled(self, x):
        return self.add("Flatten", self.add("GlobalAveragePool", x))

    def save(self, path, shape, output, output_shape):
        kind = TensorProto.FLOAT
        x, y = helper.make_tensor_value_info("x", kind, shape), helper.make_tensor_value_info(output, kind, output_shape)
        graph = helper.make_graph(self.nodes, path.name, [x], [y], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, f"{path}.onnx")
        ov.save_model(ov.convert_model(f"{path}.onnx"), f"{path}.xml", compress_to_fp16=False)


def mnist(path):
    g = Graph()
    x = "x"
    for inputs, outputs in ((1, 32), (32, 64)):
        x = g.convolution(x, inputs, outputs, 3, act="relu", pad=0)
        x = g.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.add("Relu", g.dense(g.add("Flatten", x), 1600, 64))
    g.save(path, [1, 1, 28, 28], g.add("Softmax", g.dense(x, 64, 10), axis=1), [1, 10])


def mobilenet_v2(path):
    g = Graph()
    x, inputs = g.convolution("x", 3, 32, 3, 2, act="relu6"), 32
    blocks = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expansion, outputs, count, first_stride in blocks:
        for i in range(count):
            stride, hidden = first_stride if i == 0 else 1, inputs * expansion
            y = g.convolution(x, inputs, hidden, 1, act="relu6") if expansion > 1 else x
            y = g.convolution(y, hidden, hidden, 3, stride, hidden, "relu6")
            y = g.convolution(y, hidden, outputs, 1)
            x = g.add("Add", y, x) if stride == 1 and inputs == outputs else y
            inputs = outputs
    x = g.pooled(g.convolution(x, inputs, 1280, 1, act="relu6"))
    g.save(path, [1, 3, 224, 224], g.dense(x, 1280, 1000), [1, 1000])


def resnet_50(path):
    g = Graph()
    x = g.convolution("x", 3, 64, 7, 2, act="relu")
    x, inputs = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for width, count, first_stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            stride = first_stride if i == 0 else 1
            side = x if i else g.convolution(x, inputs, width * 4, 1, stride)
            y = g.convolution(x, inputs, width, 1, act="relu")
            y = g.convolution(y, width, width, 3, stride, act="relu")
            x, inputs = g.add("Relu", g.add("Add", g.convolution(y, width, width * 4, 1), side)), width * 4
    g.save(path, [1, 3, 224, 224], g.dense(g.pooled(x), 2048, 1000), [1, 1000])


def encoder(layers, width, heads, tokens, hidden):
    def write(path):
        g, x = Graph(), "x"

        def split(y, order):
            return g.add("Transpose", g.add("Reshape", y, g.constant(np.array([1, tokens, heads, width // heads]))), perm=order)

        for _ in range(layers):
            q, k, v = (split(g.linear(x, width, width), order) for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
            scores = g.add("Mul", g.add("MatMul", q, k), g.constant(np.float32((width // heads) ** -0.5)))
            y = g.add("Transpose", g.add("MatMul", g.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
            y = g.add("Reshape", y, g.constant(np.array([1, tokens, width])))
            x = g.norm(g.add("Add", x, g.linear(y, width, width)), width)
            y = g.linear(x, width, hidden)
            erf = g.add("Erf", g.add("Div", y, g.constant(np.float32(2**0.5))))
            y = g.add("Mul", g.add("Mul", y, g.constant(np.float32(0.5))), g.add("Add", erf, g.constant(np.float32(1))))
            x = g.norm(g.add("Add", x, g.linear(y, hidden, width)), width)
        g.save(path, [1, tokens, width], x, [1, tokens, width])

    return write


def module(make, *shape):
    """A writer of the IR file of a torch module."""

    def write(path):
        torch.manual_seed(0)
        model = make().eval()
        with torch.no_grad():
            converted = ov.convert_model(model, example_input=torch.randn(shape), input=[list(shape)])
        ov.save_model(converted, f"{path}.xml", compress_to_fp16=False)

    return write


def vision(name):
    return module(lambda: torchvision.models.get_model(name, weights=None), 1, 3, 224, 224)


def image_transformer(name):
    return module(lambda: timm.create_model(name, pretrained=False), 1, 3, 224, 224)


MODELS = {
    "mnist": mnist,
    "mbv2": mobilenet_v2,
    "rn50": resnet_50,
    "minilm": encoder(6, 384, 12, 64, 1536),
    "bertb": encoder(12, 768, 12, 128, 3072),
    "effb0": vision("efficientnet_b0"),
    "mbv3": vision("mobilenet_v3_large"),
    "dense121": vision("densenet121"),
    "convnext": vision("convnext_tiny"),
    "shufflenet": vision("shufflenet_v2_x1_0"),
    "unet": module(networks.UNet, 1, 3, 256, 256),
    "yolo": module(networks.Detector, 1, 3, 640, 640),
    "deit": image_transformer("deit_tiny_patch16_224"),
    "swin": image_transformer("swin_tiny_patch4_window7_224"),
    "lstm": module(networks.Recurrent, 1, 64, 128),
    "llama": module(networks.DecoderStep, 1, networks.DecoderStep.INPUTS),
}

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in MODELS.items():
        if any(fnmatch.fnmatch(name, pattern) for pattern in sys.argv[2:] or ["*"]):
            write(folder / name)
            print(name, flush=True)
