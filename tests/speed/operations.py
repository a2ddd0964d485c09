"""Single operations on inputs of the model, with the values of the inputs: FOLDER/*.xml and *.npz.

Needs numpy and openvino: python operations.py FOLDER [NAME...]; then irc bench NAME.xml --inputs NAME.npz --against openvino
"""

import sys
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset15 as o

RANDOM = np.random.default_rng(1)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def uniform(*shape):
    return RANDOM.random(shape).astype(np.float32)


def whole(limit, *shape, kind=np.int64):
    return RANDOM.integers(0, limit, shape).astype(kind)


def weights(*shape):
    return o.constant(normal(*shape) / np.sqrt(np.prod(shape[1:])).astype(np.float32))


def ints(*values):
    return o.constant(np.array(values, np.int64))


def convolution(channels, dilation):
    pads = [dilation] * 2
    return lambda x: o.convolution(x, weights(channels, channels, 3, 3), [1, 1], pads, pads, [dilation] * 2)


def transposed(channels, results, window):
    pads = [window // 2 - 1] * 2
    return lambda x: o.convolution_backprop_data(
        x, weights(channels, results, window, window), [2, 2], pads_begin=pads, pads_end=pads
    )


def transposed_channels(x):
    return o.group_convolution_backprop_data(x, weights(64, 1, 1, 4, 4), [2, 2], pads_begin=[1, 1], pads_end=[1, 1])


def regions(count):
    first = uniform(count, 2) * 100
    return np.concatenate([first, first + 1 + uniform(count, 2) * 100], 1)


def aligned(x, boxes):
    return o.roi_align(x, boxes, o.constant(np.zeros(50, np.int32)), 7, 7, 2, 0.25, "avg")


def deformable(x, offsets):
    return o.deformable_convolution(x, offsets, weights(64, 64, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1])


def largest(k, axis):
    return lambda x: o.topk(x, np.int64(k), axis, "max", "value").output(0)


def padded(mode):
    return lambda x: o.pad(x, ints(0, 0, 3, 3), ints(0, 0, 3, 3), mode)


def quantised(x):
    low, high = o.constant(-uniform(1, 64, 1, 1) - 1), o.constant(uniform(1, 64, 1, 1) + 1)
    return o.fake_quantize(x, low, high, low, high, 256)


def logsumexp(x):
    return o.log(o.reduce_sum(o.exp(o.subtract(x, o.reduce_max(x, ints(1), True))), ints(1), True))


IMAGE = (1, 64, 56, 56)
OPERATIONS = {
    "running_sum": (lambda x: o.cumsum(x, np.int64(1)), normal(64, 4096)),
    "running_sum_of_rows": (lambda x: o.cumsum(x, np.int64(0)), normal(512, 512)),
    "remainder": (o.mod, uniform(*IMAGE), normal(*IMAGE)),
    "floor_remainder": (o.floor_mod, uniform(*IMAGE), normal(*IMAGE)),
    "remainder_i32": (o.mod, whole(1000, 64, 1024, kind=np.int32), whole(1000, 64, 1024, kind=np.int32) + 1),
    "quotient_i64": (o.divide, whole(1000, 64, 1024), whole(1000, 64, 1024) + 1),
    "softplus": (o.softplus, normal(*IMAGE)),
    "mish": (o.mish, normal(*IMAGE)),
    "exp": (o.exp, normal(*IMAGE)),
    "to_u8": (lambda x: o.convert(x, "u8"), uniform(*IMAGE) * 255),
    "quantised": (quantised, normal(*IMAGE)),
    "logsumexp": (logsumexp, normal(256, 1000)),
    "dilated_4": (convolution(64, 4), normal(*IMAGE)),
    "dilated_2": (convolution(128, 2), normal(1, 128, 28, 28)),
    "transposed_2": (transposed(64, 32, 2), normal(*IMAGE)),
    "transposed_4": (transposed(64, 32, 4), normal(*IMAGE)),
    "transposed_channels": (transposed_channels, normal(*IMAGE)),
    "product_both_broadcast": (
        lambda a, b: o.matmul(a, b, False, False),
        normal(16, 1, 32, 64),
        normal(1, 8, 64, 32),
    ),
    "product_with_itself": (lambda x: o.matmul(x, x, False, True), normal(128, 512)),
    "product_with_vector": (lambda a, b: o.matmul(a, b, False, False), normal(1024, 1024), normal(1024, 1)),
    "fourier_of_two_axes": (lambda x: o.dft(x, ints(0, 1)), normal(64, 64, 2)),
    "fourier_512": (lambda x: o.dft(x, ints(1)), normal(64, 512, 2)),
    "deformable": (deformable, normal(1, 64, 28, 28), normal(1, 18, 28, 28)),
    "aligned_regions": (aligned, normal(*IMAGE), regions(50)),
    "largest_of_rows": (largest(100, -1), normal(80, 8400)),
    "largest_of_columns": (largest(5, 1), normal(1, 80, 8400)),
    "unique": (lambda x: o.unique(x).output(0), whole(1000, 20000)),
    "reflected": (padded("reflect"), normal(*IMAGE)),
    "greatest_of_lines": (lambda x: o.max_pool(x, [2], [1], [0], [0], [2]).output(0), normal(1, 64, 4096)),
}


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:] or OPERATIONS
    for name in names:
        build, *values = OPERATIONS[name]
        inputs = [o.parameter(x.shape, x.dtype, name=f"x{i}") for i, x in enumerate(values)]
        ov.save_model(ov.Model([build(*inputs)], inputs, name), folder / f"{name}.xml", compress_to_fp16=False)
        np.savez(folder / f"{name}.npz", **{f"x{i}": x for i, x in enumerate(values)})


if __name__ == "__main__":
    main()
