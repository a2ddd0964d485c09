"""Single operations on inputs of the model, with the values of the inputs: FOLDER/*.xml and *.npz.

Needs numpy and openvino: python operations.py FOLDER [NAME...]; then irc bench NAME.xml --inputs NAME.npz --against openvino
"""

import sys
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset15 as o
from openvino.utils.node_factory import NodeFactory

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


def regions(count, *, size=200.0, batches=False):
    first = uniform(count, 2) * size / 2
    boxes = np.concatenate([first, first + size / 200 + uniform(count, 2) * size / 2], 1).astype(np.float32)
    return np.concatenate([np.zeros((count, 1), np.float32), boxes], 1) if batches else boxes


def aligned(count, cells, ratio, mode="avg"):
    batches = o.constant(np.zeros(count, np.int32))
    return lambda x, boxes: o.roi_align(x, boxes, batches, cells, cells, ratio, 0.25, mode)


def turned(x, boxes):
    return o.roi_align_rotated(x, boxes, o.constant(np.zeros(50, np.int32)), 7, 7, 2, 0.25, True)


def pooled(scale, method):
    return lambda x, boxes: o.roi_pooling(x, boxes, [7, 7], scale, method)


def position_sensitive(mode, bins):
    return lambda x, boxes: o.psroi_pooling(x, boxes, 8, 7, 1 / 16 if mode == "average" else 1.0, bins, bins, mode)


def extracted(boxes, *levels):
    attributes = dict(output_size=7, sampling_ratio=2, pyramid_scales=[4, 8, 16], aligned=False)
    node = NodeFactory("opset6").create("ExperimentalDetectronROIFeatureExtractor", [boxes, *levels], attributes)
    return node.output(0)


def sampled(mode):
    return lambda x, grid: o.grid_sample(x, grid, dict(align_corners=True, mode=mode, padding_mode="zeros"))


def deformable(x, offsets):
    return o.deformable_convolution(x, offsets, weights(64, 64, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1])


def largest(k, axis):
    return lambda x: o.topk(x, np.int64(k), axis, "max", "value").output(0)


def corners(images, count, side=0.1):
    """Boxes in the unit square."""
    first = uniform(images, count, 2) * (1 - side)
    return np.concatenate([first, first + uniform(images, count, 2) * side], 2)


def suppressed(most):
    numbers = [o.constant(np.float32(n)) for n in (0.5, 0.3)]
    return lambda boxes, scores: o.non_max_suppression(boxes, scores, np.int64(most), *numbers).output(0)


def many_classes(name, **extra):
    limits = dict(sort_result_type="score", score_threshold=0.3, nms_top_k=400, keep_top_k=100)
    return lambda boxes, scores: getattr(o, name)(boxes, scores, **limits, **extra).output(0)


def scattered(x, part):
    return o.slice_scatter(x, part, ints(1, 1), ints(56, 56), ints(2, 2), ints(2, 3))


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
    "sampled_grid": (sampled("bilinear"), normal(*IMAGE), uniform(1, 56, 56, 2) * 2 - 1),
    "sampled_grid_cubic": (sampled("bicubic"), normal(*IMAGE), uniform(1, 56, 56, 2) * 2 - 1),
    "aligned_regions": (aligned(50, 7, 2), normal(*IMAGE), regions(50)),
    "aligned_regions_max": (aligned(50, 7, 2, "max"), normal(*IMAGE), regions(50)),
    "aligned_regions_300": (aligned(300, 7, 2), normal(1, 256, 50, 68), regions(300)),
    "aligned_regions_14": (aligned(100, 14, 2), normal(1, 256, 50, 68), regions(100)),
    "aligned_regions_fitting": (aligned(100, 7, 0), normal(1, 256, 50, 68), regions(100)),
    "turned_regions": (turned, normal(*IMAGE), np.concatenate([regions(50), normal(50, 1)], 1)),
    "pooled_regions": (pooled(1 / 16, "max"), normal(1, 256, 38, 50), regions(100, size=600, batches=True)),
    "pooled_regions_bilinear": (pooled(1.0, "bilinear"), normal(1, 256, 38, 50), regions(100, size=1, batches=True)),
    "position_sensitive": (
        position_sensitive("average", 1),
        normal(1, 392, 38, 50),
        regions(100, size=600, batches=True),
    ),
    "position_sensitive_bilinear": (
        position_sensitive("bilinear", 3),
        normal(1, 72, 38, 50),
        regions(100, size=1, batches=True),
    ),
    "extracted_regions": (
        extracted,
        regions(100, size=200),
        normal(1, 256, 50, 68),
        normal(1, 256, 25, 34),
        normal(1, 256, 13, 17),
    ),
    "largest_of_rows": (largest(100, -1), normal(80, 8400)),
    "largest_of_columns": (largest(5, 1), normal(1, 80, 8400)),
    "largest_of_columns_40": (largest(40, 1), normal(1, 200, 4200)),
    "largest_of_many": (largest(1000, -1), normal(4, 50000)),
    "few_largest_of_rows": (largest(5, -1), normal(1000, 1000)),
    "sorted_rows": (largest(1000, -1), normal(64, 1000)),
    "unique": (lambda x: o.unique(x).output(0), whole(1000, 20000)),
    "unique_unsorted": (lambda x: o.unique(x, sorted=False).output(0), whole(1000, 20000)),
    "unique_f32": (lambda x: o.unique(x).output(0), normal(20000)),
    "unique_rows": (lambda x: o.unique(x, o.constant(np.int64(0))).output(0), whole(10, 5000, 3)),
    "suppressed_of_one_class": (suppressed(300), corners(1, 8400), uniform(1, 1, 8400)),
    "suppressed_of_many_classes": (suppressed(100), corners(1, 1000), uniform(1, 80, 1000)),
    "suppressed_rarely": (suppressed(1000), corners(1, 8400, 0.02), uniform(1, 1, 8400)),
    "suppressed_multiclass": (
        many_classes("multiclass_nms", iou_threshold=0.5),
        corners(1, 1000),
        uniform(1, 80, 1000),
    ),
    "suppressed_matrix": (many_classes("matrix_nms"), corners(1, 1000), uniform(1, 80, 1000)),
    "places_of_some": (lambda x: o.non_zero(x), whole(2, *IMAGE, kind=np.int32)),
    "looked_up_by_places": (lambda x, at: o.gather_nd(x, at), normal(64, 64, 32), whole(64, 4096, 2)),
    "scattered_slices": (scattered, normal(*IMAGE), normal(1, 64, 28, 28)),
    "reflected": (padded("reflect"), normal(*IMAGE)),
    "greatest_of_one_channel": (
        lambda x: o.max_pool(x, [1, 1], [1, 1], [4, 4], [4, 4], [9, 9]).output(0),
        normal(1, 1, 120, 120),
    ),
    "greatest_of_a_picture": (
        lambda x: o.max_pool(x, [2, 2], [1, 1], [1, 1], [1, 1], [3, 3]).output(0),
        normal(1, 3, 224, 224),
    ),
    "means_of_two_channels": (
        lambda x: o.avg_pool(x, [1, 1], [2, 2], [2, 2], [5, 5], False).output(0),
        normal(1, 2, 120, 120),
    ),
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
