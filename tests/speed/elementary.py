"""Elementary operations, one to a model, on inputs and on what a convolution computes: FOLDER/*.xml.

Needs numpy and openvino: python elementary.py FOLDER [NAME...]; then irc bench NAME.xml --against openvino
"""

import sys
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import opset15 as o

RANDOM = np.random.default_rng(1)
IMAGE = (1, 64, 56, 56)
MODELS = {}

TYPES = {"boolean": bool, "u8": np.uint8, "i8": np.int8, "i32": np.int32, "i64": np.int64, "f16": np.float16}


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def ints(*values):
    return o.constant(np.array(values, np.int64))


def number(value, kind=np.float32):
    return o.constant(np.array(value, kind))


def add(name, function, *shapes, kinds=()):
    """A model of one function; inputs are f32 but for those of other kinds, which come first."""
    MODELS[name] = (function, shapes or (IMAGE,), kinds)


def functions():
    for name in (
        "abs acos acosh asin asinh atan cos cosh erf exp floor hsigmoid hswish log mish negative round sigmoid sign sin"
        " softplus softsign sqrt swish tan tanh"
    ).split():
        more = ("half_to_even",) if name == "round" else ()
        add(name, lambda x, name=name, more=more: getattr(o, name)(x, *more))
    for mode in ("erf", "tanh"):
        add(f"gelu_{mode}", lambda x, mode=mode: o.gelu(x, mode))
    add("elu", lambda x: o.elu(x, 1.0))
    add("prelu", lambda x: o.prelu(x, o.constant(normal(64))))
    for power in (0.5, 1.7, 2.0):
        add(f"power_{power}".replace(".", "p"), lambda x, power=power: o.power(o.abs(x), number(power)))
    for axis in (1, 3):
        add(f"softmax_{axis}", lambda x, axis=axis: o.softmax(x, axis))
        add(f"logarithm_of_softmax_{axis}", lambda x, axis=axis: o.log_softmax(x, axis))


def pairs():
    for name in "add divide maximum minimum multiply power squared_difference subtract".split():
        add(f"{name}_2", lambda x, y, name=name: getattr(o, name)(x, y), IMAGE, IMAGE)
    for label, shape in (("channel", (1, 64, 1, 1)), ("row", (56,)), ("column", (1, 64, 56, 1))):
        add(f"multiply_{label}", lambda x, y: o.multiply(x, y), IMAGE, shape)
    add("outer", lambda x, y: o.add(x, y), (512, 1), (1, 512))


def choices():
    for label, condition, second in (
        ("whole", IMAGE, IMAGE),
        ("of_a_mask", (1, 1, 56, 56), IMAGE),
        ("of_channels", IMAGE, (1, 64, 1, 1)),
    ):
        add(f"select_{label}", lambda c, x, y: o.select(c, x, y), condition, IMAGE, second, kinds=("boolean",))
    add("select_constant", lambda c, x: o.select(c, x, number(-1e9)), IMAGE, IMAGE, kinds=("boolean",))
    add("select_lesser", lambda x, y: o.select(o.less(x, y), x, o.multiply(y, number(3))), IMAGE, IMAGE)


def conversions():
    for kind in TYPES:
        add(f"from_{kind}", lambda x: o.convert(x, "f32"), IMAGE, kinds=(kind,))
        add(f"to_{kind}", lambda x, kind=kind: o.convert(x, kind))


def reductions():
    axes = {"pixels": (2, 3), "channels": (1,), "columns": (2,), "rows": (3,), "all": (0, 1, 2, 3)}
    for name in "l1 l2 max mean min prod sum".split():
        for label, along in axes.items():
            reduce = getattr(o, f"reduce_{name}")
            add(f"{name}_{label}", lambda x, reduce=reduce, along=along: reduce(x, ints(*along), True))
    for kind in ("i32", "i64", "u8"):
        for name in "max min sum".split():
            for label in ("pixels", "channels", "columns"):
                reduce, along = getattr(o, f"reduce_{name}"), axes[label]
                call = lambda x, reduce=reduce, along=along: reduce(x, ints(*along), True)
                add(f"{name}_{label}_{kind}", call, IMAGE, kinds=(kind,))
    for label, axis in (("channels", 1), ("columns", 2), ("rows", 3)):
        places = lambda x, axis=axis: o.topk(x, number(1, np.int64), axis, "max", "value").output(1)
        add(f"place_of_greatest_{label}", places)


def normalisations():
    for label, axes, size in (("channels_5", (1,), 5), ("pixels_3", (2, 3), 3)):
        add(f"local_response_{label}", lambda x, axes=axes, size=size: o.lrn(x, ints(*axes), 1e-4, 0.75, 1.0, size))
    for label, axes in (("pixels", (2, 3)), ("all", (1, 2, 3))):
        add(f"mvn_{label}", lambda x, axes=axes: o.mvn(x, ints(*axes), True, 1e-5, "inside_sqrt"))
    add("l2_normal", lambda x: o.normalize_l2(x, ints(1), 1e-6, "add"))


def products():
    for batch, m, k, n in (
        (512, 4, 4, 4),
        (256, 8, 8, 8),
        (64, 16, 64, 16),
        (12, 128, 64, 128),
        (1, 3, 4096, 3),
        (1, 4, 512, 512),
        (1, 128, 768, 768),
    ):
        size = f"{batch}_{m}_{k}_{n}"
        add(f"product_{size}", lambda x, y: o.matmul(x, y, False, False), (batch, m, k), (batch, k, n))
        add(f"product_turned_{size}", lambda x, y: o.matmul(x, y, False, True), (batch, m, k), (batch, n, k))
    for length in (1000, 1024):
        add(f"fourier_real_{length}", lambda x: o.rdft(x, ints(1)), (8, length))
        add(f"fourier_complex_{length}", lambda x: o.dft(x, ints(1)), (8, length, 2))


def moves():
    for order in ((0, 2, 3, 1), (0, 2, 1, 3), (0, 1, 3, 2), (3, 2, 1, 0)):
        add("turned_" + "".join(map(str, order)), lambda x, order=order: o.transpose(x, ints(*order)))
    for mode in "constant edge reflect symmetric".split():
        add(f"padded_{mode}", lambda x, mode=mode: o.pad(x, ints(0, 0, 3, 3), ints(0, 0, 3, 3), mode))
    add("rolled", lambda x: o.roll(x, ints(3, 3), ints(2, 3)))
    add("tiled", lambda x: o.tile(x, ints(1, 2, 2, 2)))
    add("shuffled", lambda x: o.shuffle_channels(x, 1, 4))
    add("blocks_from_depth", lambda x: o.depth_to_space(x, "blocks_first", 2))
    add("every_second", lambda x: o.slice(x, ints(0, 0), ints(56, 56), ints(2, 2), ints(2, 3)))
    for mode in "nearest linear_onnx cubic".split():
        call = lambda x, mode=mode: o.interpolate(x, ints(112, 112), mode, "sizes", axes=ints(2, 3))
        add(f"resized_{mode}", call, (1, 32, 56, 56))


def behind_convolutions():
    """Every function of an image, of what a convolution computes instead."""
    kernel = normal(64, 16, 3, 3) / 12
    for name, (function, shapes, kinds) in list(MODELS.items()):
        if shapes == (IMAGE,) and not kinds:
            convolved = lambda x: o.convolution(x, o.constant(kernel), [1, 1], [1, 1], [1, 1], [1, 1])
            add(f"convolved_{name}", lambda x, f=function, c=convolved: f(c(x)), (1, 16, 56, 56))


def main(folder, *names):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for family in (functions, pairs, choices, conversions, reductions, normalisations, products, moves):
        family()
    behind_convolutions()
    for name, (function, shapes, kinds) in MODELS.items():
        if names and name not in names:
            continue
        kinds = [TYPES[kind] for kind in kinds] + [np.float32] * (len(shapes) - len(kinds))
        inputs = [o.parameter(list(shape), kind, name=f"x{i}") for i, (shape, kind) in enumerate(zip(shapes, kinds))]
        model = ov.Model([function(*inputs)], inputs, name)
        ov.save_model(model, f"{folder}/{name}.xml", compress_to_fp16=False)
        print(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
