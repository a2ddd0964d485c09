"""Puts FakeQuantize and integer weights into a model, as tools for quantisation do."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops

WEIGHTED = {"Convolution", "GroupConvolution", "MatMul"}


def constant(value):
    return ops.constant(np.asarray(value, np.float32))


def activation(source, low, high):
    """256 levels from `low` to `high`, zero among them."""
    low, high = min(low, 0.0), max(high, 1e-3)
    step = (high - low) / 255
    low = round(low / step) * step
    ends = [constant(low), constant(low + 255 * step)]
    return ops.fake_quantize(source, *ends, *ends, levels=256)


def weights(values, axes):
    """Integers of 8 bits, converted and scaled per output channel."""
    scale = np.maximum(np.abs(values).max(axis=axes, keepdims=True), 1e-6) / 127
    whole = ops.constant(np.clip(np.round(values / scale), -127, 127).astype(np.int8))
    return ops.multiply(ops.convert(whole, "f32"), constant(scale))


def ranges(model, sources, inputs):
    """The least and greatest values of some outputs in a run."""
    probe = ov.Model([ops.result(source) for source in sources], model.get_parameters())
    results = ov.Core().compile_model(probe, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(inputs)
    return [(float(value.min()), float(value.max())) for value in results.values()]


def quantise(model, inputs):
    """Quantises data and weights of all convolutions and matrix products with constant weights."""
    chosen = [op for op in model.get_ordered_ops() if op.get_type_name() in WEIGHTED
              and op.input_value(1).get_node().get_type_name() == "Constant"]
    for op, (low, high) in zip(chosen, ranges(model, [op.input_value(0) for op in chosen], inputs)):
        values = op.input_value(1).get_node().data
        kind = op.get_type_name()
        transposed = kind == "MatMul" and op.get_attributes()["transpose_b"]
        kept = {"Convolution": (0,), "GroupConvolution": (0, 1)}.get(kind, (0,) if transposed else (values.ndim - 1,))
        axes = tuple(axis for axis in range(values.ndim) if axis not in kept)
        op.input(0).replace_source_output(activation(op.input_value(0), low, high).output(0))
        op.input(1).replace_source_output(weights(values, axes).output(0))
    model.validate_nodes_and_infer_types()
    return model
