"""Single layers whose operand is the input of the model, as no layer before them has ordered it: FOLDER/*.xml.

Needs numpy and openvino: python layers.py FOLDER [NAME...]
"""

import sys
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset13 as o

RANDOM = np.random.default_rng(1)


def w(*shape):
    scale = np.sqrt(np.prod(shape[1:]))
    return o.constant((RANDOM.standard_normal(shape) / scale).astype(np.float32))


def ints(*values):
    return o.constant(np.array(values, np.int64))


def grouped(x, *shape, stride=1, dilation=1):
    """Weights of so many groups, results, channels, and a window; padding keeps the size."""
    pads = [dilation * (n // 2) for n in shape[3:]]
    return o.group_convolution(x, w(*shape), [stride] * len(pads), pads, pads, [dilation] * len(pads))


def shuffled(x, groups, channels, size):
    x = o.reshape(x, ints(1, groups, channels, size, size), False)
    return o.reshape(o.transpose(x, ints(0, 2, 1, 3, 4)), ints(1, groups * channels, size, size), False)


def pooled(kind, window):
    pads = [window // 2] * 2
    if kind == "max":
        return lambda x: o.max_pool(x, [1, 1], [1, 1], pads, pads, [window] * 2).output(0)
    return lambda x: o.avg_pool(x, [1, 1], pads, pads, [window] * 2, True)


def unit_lengths(x):
    return o.divide(x, o.sqrt(o.reduce_sum(o.multiply(x, x), ints(2), True)))


def resized(mode, size, transform):
    kind = dict(axes=ints(2, 3), coordinate_transformation_mode=transform)
    return lambda x: o.interpolate(x, ints(size, size), mode, "sizes", **kind)


def transposed(channels, results, window):
    pads = [window // 2 - 1] * 2
    return lambda x: o.convolution_backprop_data(
        x, w(channels, results, window, window), [2, 2], pads_begin=pads, pads_end=pads
    )


def biased(channels, build):
    return lambda x: o.relu(o.add(build(x), w(1, channels, 1, 1)))


def dense(x, channels, window=1):
    pads = [window // 2] * 2
    return o.convolution(x, w(channels, channels, window, window), [1, 1], pads, pads, [1, 1])


def line(channels, *window, gap=1):
    pads = [n // 2 * gap for n in window]
    gaps = [gap if n > 1 else 1 for n in window]
    return lambda x: o.convolution(x, w(channels, channels, *window), [1] * len(window), pads, pads, gaps)


def few_columns(channels, results, window, stride=1):
    pads = [window // 2] * 2
    return lambda x: o.convolution(x, w(results, channels, window, window), [stride] * 2, pads, pads, [1, 1])


def stack(channels, *window, gap=1):
    """Four convolutions with functions, which see data as the one before has ordered it."""

    def layers(x):
        for _ in range(4):
            x = o.relu(line(channels, *window, gap=gap)(x))
        return x

    return layers


def between(kind, window, channels):
    """Pooling between two convolutions."""
    return lambda x: dense(pooled(kind, window)(dense(x, channels)), channels)


def normal_groups(channels):
    """A function of normalised groups of channels that a convolution has last."""
    ones = o.constant(np.ones(channels, np.float32))
    return lambda x: o.tanh(ov.opset12.group_normalization(dense(x, channels), ones, ones, 2, 1e-5))


def two_depthwise(channels, *windows, **others):
    return lambda x: grouped(grouped(x, channels, 1, 1, *windows[0], **others), channels, 1, 1, *windows[1])


LAYERS = {
    "sum_with_transposed": ((512, 512), lambda x: o.add(x, o.transpose(x, ints(1, 0)))),
    "function_before": ((1, 32, 64, 64), lambda x: dense(o.relu(x), 32, 3)),
    "input_added": ((1, 32, 64, 64), lambda x: o.add(dense(x, 32, 3), x)),
    "mean_3_between": ((1, 32, 56, 56), between("mean", 3, 32)),
    "mean_7_between": ((1, 32, 56, 56), between("mean", 7, 32)),
    "max_3_between": ((1, 32, 56, 56), between("max", 3, 32)),
    "normal_groups": ((8, 128, 40, 40), normal_groups(128)),
    "normal_groups_of_40": ((2, 40, 56, 56), normal_groups(40)),
    "groups": ((1, 96, 56, 56), lambda x: grouped(x, 2, 48, 48, 3, 3)),
    "groups_strided": ((1, 128, 56, 56), lambda x: grouped(x, 4, 32, 32, 3, 3, stride=2)),
    "groups_dilated": ((1, 128, 40, 40), lambda x: grouped(x, 4, 32, 32, 3, 3, dilation=2)),
    "groups_shuffled": ((1, 96, 56, 56), lambda x: grouped(shuffled(x, 2, 48, 56), 2, 48, 48, 3, 3)),
    "groups_of_pixels": ((1, 240, 28, 28), lambda x: grouped(x, 3, 80, 80, 1, 1)),
    "groups_of_lines": ((1, 128, 1000), lambda x: grouped(x, 4, 32, 32, 5)),
    "groups_of_volumes": ((1, 64, 8, 28, 28), lambda x: grouped(x, 4, 16, 16, 3, 3, 3)),
    "groups_of_one_result": ((2, 16, 48, 48), lambda x: grouped(x, 4, 1, 4, 3, 3)),
    "groups_of_two_results": ((2, 24, 20, 20), lambda x: grouped(dense(x, 24), 8, 2, 3, 3, 3)),
    "groups_of_three_results": ((8, 8, 28, 28), lambda x: grouped(x, 2, 3, 4, 3, 3)),
    "dilated_6": ((1, 64, 28, 28), lambda x: grouped(x, 1, 64, 64, 3, 3, dilation=6)),
    "dilated_12": ((1, 64, 32, 32), lambda x: grouped(x, 1, 64, 64, 3, 3, dilation=12)),
    "window_5_of_few_pixels": ((1, 64, 8, 8), lambda x: grouped(x, 1, 64, 64, 5, 5)),
    "window_4": ((1, 128, 31, 31), lambda x: o.convolution(x, w(128, 128, 4, 4), [1, 1], [1, 1], [1, 1], [1, 1])),
    "window_5": ((1, 64, 28, 28), lambda x: dense(x, 64, 5)),
    "window_5_of_24": ((1, 24, 28, 28), lambda x: dense(x, 24, 5)),
    "window_7": ((1, 64, 14, 14), lambda x: dense(x, 64, 7)),
    "window_7_of_24": ((1, 24, 28, 28), lambda x: dense(x, 24, 7)),
    "line_3": ((1, 128, 500), line(128, 3)),
    "line_5": ((1, 128, 500), line(128, 5)),
    "line_7": ((1, 128, 500), line(128, 7)),
    "line_3_dilated": ((1, 128, 512), line(128, 3, gap=4)),
    "column_7": ((1, 128, 17, 17), line(128, 7, 1)),
    "slices_3": ((1, 128, 8, 14, 14), line(128, 3, 1, 1)),
    "dilated_batch": ((2, 64, 28, 28), lambda x: o.convolution(x, w(64, 64, 3, 3), [1, 1], [2, 2], [2, 2], [2, 2])),
    "dilated_slices": (
        (1, 32, 8, 28, 28),
        lambda x: o.convolution(x, w(32, 32, 3, 3, 3), [1, 1, 1], [1, 2, 2], [1, 2, 2], [1, 2, 2]),
    ),
    "sixteen_columns": ((1, 64, 40, 40), few_columns(64, 16, 3)),
    "sixteen_columns_swish": ((1, 64, 40, 40), lambda x: o.swish(few_columns(64, 16, 3)(x))),
    "ten_columns_of_an_image": ((1, 3, 96, 128), few_columns(3, 10, 3)),
    "ten_slopes_of_an_image": (
        (1, 3, 96, 128),
        lambda x: o.prelu(few_columns(3, 10, 3)(x), o.constant(np.linspace(0.1, 0.5, 10, dtype=np.float32))),
    ),
    "eight_columns_of_a_volume": (
        (1, 1, 32, 32, 32),
        lambda x: o.convolution(x, w(8, 1, 5, 5, 5), [1] * 3, [2] * 3, [2] * 3, [1] * 3),
    ),
    "eight_columns_of_lines": (
        (1, 1, 64, 192),
        lambda x: o.convolution(x, w(8, 1, 1, 64), [1, 1], [0, 0], [0, 0], [1, 1]),
    ),
    "few_columns_of_128_strided": ((1, 128, 16, 16), few_columns(128, 16, 3, stride=2)),
    "few_columns_of_96_strided": ((1, 96, 14, 14), few_columns(96, 12, 5, stride=2)),
    "few_columns_at_32_strided": ((1, 96, 32, 32), few_columns(96, 8, 3, stride=2)),
    "twenty_columns_7": ((1, 3, 64, 64), few_columns(3, 20, 7)),
    "forty_columns": ((1, 40, 28, 28), few_columns(40, 40, 3)),
    "eight_columns_of_many": ((1, 128, 56, 56), few_columns(128, 8, 3)),
    "few_columns_3": ((2, 8, 48, 48), few_columns(8, 8, 3)),
    "few_columns_7": ((1, 64, 16, 16), few_columns(64, 8, 7)),
    "unread": ((1, 16, 32, 32), lambda x: few_columns(16, 24, 1, stride=2)(o.relu(dense(x, 16, 3)))),
    "few_columns_strided": ((2, 16, 96, 96), few_columns(16, 4, 5, stride=2)),
    "sixteen_columns_strided_5": ((4, 48, 48, 48), few_columns(48, 16, 5, stride=2)),
    "sixteen_columns_7": ((1, 16, 64, 64), few_columns(16, 16, 7)),
    "thirteen_columns_strided_5": ((1, 128, 40, 40), few_columns(128, 13, 5, stride=2)),
    "twenty_columns_strided_5": ((2, 64, 28, 28), few_columns(64, 20, 5, stride=2)),
    "twenty_four_columns": ((2, 32, 40, 40), few_columns(32, 24, 3)),
    "twenty_four_columns_of_pixels": ((1, 96, 28, 28), few_columns(96, 24, 1)),
    "twenty_four_columns_of_lines": (
        (4, 16, 1000),
        lambda x: o.convolution(x, w(24, 16, 15), [1], [7], [7], [1]),
    ),
    "six_columns_of_many": ((8, 96, 32, 32), few_columns(96, 6, 3)),
    "eleven_columns_5": ((2, 40, 56, 56), few_columns(40, 11, 5)),
    "eight_columns_strided_5": ((2, 40, 80, 80), few_columns(40, 8, 5, stride=2)),
    "twelve_columns_of_a_line": (
        (1, 80, 3000),
        lambda x: o.convolution(x, w(12, 80, 31), [2], [15], [15], [1]),
    ),
    "stack_of_8": ((1, 8, 40, 40), stack(8, 3, 3)),
    "stack_of_10": ((1, 10, 40, 40), stack(10, 3, 3)),
    "stack_of_16": ((1, 16, 64, 64), stack(16, 3, 3)),
    "stack_of_8_dilated": ((1, 8, 64, 64), stack(8, 3, 3, gap=2)),
    "stack_of_10_dilated": ((1, 10, 40, 40), stack(10, 3, 3, gap=2)),
    "stack_of_16_dilated": ((1, 16, 40, 40), stack(16, 3, 3, gap=2)),
    "stack_of_8_in_lines": ((1, 8, 800), stack(8, 3)),
    "stack_of_12_in_lines": ((1, 12, 800), stack(12, 3)),
    "depthwise_of_colours": ((1, 3, 224, 224), lambda x: grouped(x, 3, 1, 1, 5, 5)),
    "depthwise_of_colours_11": ((2, 3, 128, 128), lambda x: grouped(x, 3, 1, 1, 11, 11)),
    "depthwise_of_colours_twice": ((1, 3, 112, 112), two_depthwise(3, (3, 3), (5, 5))),
    "depthwise_of_colours_strided": ((1, 3, 112, 112), two_depthwise(3, (5, 5), (3, 3), stride=2)),
    "depthwise_of_five_dilated": ((2, 5, 64, 64), two_depthwise(5, (3, 3), (3, 3), dilation=2)),
    "depthwise_of_three_signals": ((4, 3, 500), two_depthwise(3, (9,), (31,), stride=2)),
    "depthwise_of_six_strided": ((8, 6, 12, 12), lambda x: grouped(x, 6, 1, 1, 7, 7, stride=2)),
    "depthwise_of_54_strided": ((1, 54, 40, 40), lambda x: grouped(x, 54, 1, 1, 7, 7, stride=2)),
    "depthwise_7": ((1, 96, 56, 56), lambda x: grouped(x, 96, 1, 1, 7, 7)),
    "depthwise_11": ((1, 128, 32, 32), lambda x: grouped(x, 128, 1, 1, 11, 11)),
    "depthwise_13": ((1, 256, 16, 16), lambda x: grouped(x, 256, 1, 1, 13, 13)),
    "depthwise_31": ((1, 64, 32, 32), lambda x: grouped(x, 64, 1, 1, 31, 31)),
    "depthwise_1x21": ((1, 64, 64, 64), lambda x: grouped(x, 64, 1, 1, 1, 21)),
    "depthwise_line": ((1, 512, 200), lambda x: grouped(x, 512, 1, 1, 15)),
    "depthwise_line_strided": ((4, 40, 123), lambda x: grouped(x, 40, 1, 1, 31, stride=2)),
    "depthwise_line_elu": ((4, 96, 1500), lambda x: o.elu(grouped(x, 96, 1, 1, 3), 1.0)),
    "max_5": ((1, 256, 20, 20), pooled("max", 5)),
    "average_3": ((1, 128, 56, 56), pooled("average", 3)),
    "average_3_of_112": ((1, 64, 112, 112), pooled("average", 3)),
    "average_7_of_112": ((1, 64, 112, 112), pooled("average", 7)),
    "max_3_of_112": ((1, 64, 112, 112), pooled("max", 3)),
    "unit_lengths": ((4, 512, 128), unit_lengths),
    "softmax_of_channels": ((1, 21, 256, 256), lambda x: o.softmax(x, 1)),
    "log_softmax_of_channels": ((1, 150, 64, 64), lambda x: o.log_softmax(x, 1)),
    "log_softmax_of_rows": ((128, 1000), lambda x: o.log_softmax(x, 1)),
    "softmax_of_short_rows": ((12544, 8), lambda x: o.softmax(x, 1)),
    "softmax_of_rows_of_16": ((6272, 16), lambda x: o.softmax(x, 1)),
    "log_softmax_of_short_rows": ((6272, 16), lambda x: o.log_softmax(x, 1)),
    "normalized_short_rows": ((2508, 40), lambda x: o.mvn(x, ints(1), True, 1e-5, "inside_sqrt")),
    "sums_of_images": ((8, 64, 28, 28), lambda x: o.reduce_sum(x, ints(0, 2, 3), True)),
    "normalized_pixels": ((1, 96, 56, 56), lambda x: o.mvn(x, ints(1), True, 1e-6, "inside_sqrt")),
    "normalized_images": ((1, 64, 128, 128), lambda x: o.mvn(x, ints(2, 3), True, 1e-5, "inside_sqrt")),
    "linear": ((1, 64, 64, 64), resized("linear_onnx", 128, "half_pixel")),
    "cubic": ((1, 3, 256, 256), resized("cubic", 512, "half_pixel")),
    "transposed_2": ((1, 256, 32, 32), transposed(256, 128, 2)),
    "transposed_4": ((1, 128, 32, 32), transposed(128, 64, 4)),
    "strided_4": ((1, 64, 64, 64), few_columns(64, 128, 4, stride=2)),
    "strided_5": ((1, 128, 32, 32), few_columns(128, 64, 5, stride=2)),
    "strided_7": ((1, 64, 64, 64), few_columns(64, 96, 7, stride=2)),
    "strided_line_of_8": ((1, 128, 1024), lambda x: o.convolution(x, w(128, 128, 8), [2], [3], [3], [1])),
    "window_of_6": ((1, 64, 32, 32), few_columns(64, 64, 6)),
    "line_of_9": ((1, 96, 160), lambda x: o.convolution(x, w(384, 96, 9), [1], [4], [4], [1])),
    "line_of_11_dilated": ((1, 64, 1024), line(64, 11, gap=3)),
    "dilated_unevenly": ((1, 64, 33, 33), lambda x: grouped(x, 1, 64, 64, 3, 3, dilation=2)),
    "transposed_4": ((1, 128, 32, 32), transposed(128, 64, 4)),
    "transposed_2_biased": ((1, 16, 64, 128), biased(12, transposed(16, 12, 2))),
    "transposed_4_biased": ((1, 64, 32, 32), biased(32, transposed(64, 32, 4))),
    "pixel_shuffle": ((1, 256, 64, 64), lambda x: o.depth_to_space(x, "depth_first", 2)),
    "running_sum": ((8, 128, 512), lambda x: o.cumsum(x, o.constant(np.int64(1)))),
}


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or LAYERS:
        shape, build = LAYERS[name]
        x = o.parameter(list(shape), np.float32, name="x")
        model = ov.Model([o.result(build(x))], [x], name)
        ov.save_model(model, str(folder / f"{name}.xml"), compress_to_fp16=False)


main()
