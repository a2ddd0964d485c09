"""Stacks of dense layers with weights of 4, 8, 16 and 32 bits, for one row and for 64: FOLDER/WEIGHTS_ROWS.xml.

Needs openvino: python compressed.py FOLDER; then irc bench u8_1.xml --against openvino
"""

import sys
from pathlib import Path

import numpy as np
import openvino as ov
from openvino import Type
from openvino import opset13 as o

LAYERS, WIDTH, INNER, GROUP = 3, 1024, 4096, 128
RANDOM = np.random.default_rng(0)


def four_bits(codes, kind):
    """A constant of codes: two in a byte, the first one low."""
    pairs = (codes.reshape(-1, 2) & 15).astype(np.uint8)
    tensor = ov.Tensor(kind, ov.Shape(codes.shape))
    tensor.data[:] = (pairs[:, 0] | pairs[:, 1] << 4).reshape(tensor.data.shape)
    return o.constant(tensor)


def weights(kind, columns, products):
    """As weight compression writes them: one scale for a column, or for every group of it where weights have four bits."""
    if kind in ("f32", "f16"):
        values = RANDOM.standard_normal((columns, products)) / products**0.5
        return o.constant(values.astype(np.float32)) if kind == "f32" else o.convert(o.constant(values.astype(np.float16)), Type.f32)
    four, signed = kind.endswith("4"), kind.startswith("i")
    shape, scale_shape = ((columns, products // GROUP, GROUP), (columns, products // GROUP, 1)) if four else ((columns, products), (columns, 1))
    most = 16 if four else 256
    codes = RANDOM.integers(-most // 2 if signed else 0, most // 2 if signed else most, shape)

    def stored(codes):
        return four_bits(codes, Type.i4 if signed else Type.u4) if four else o.constant(codes.astype(np.int8 if signed else np.uint8))

    x = o.convert(stored(codes), Type.f16)
    if not signed:
        x = o.subtract(x, o.convert(stored(np.full(scale_shape, most // 2)), Type.f16))
    x = o.multiply(x, o.constant((RANDOM.random(scale_shape) * 4 / most / products**0.5).astype(np.float16)))
    return o.convert(o.reshape(x, [columns, products], False), Type.f32)


def network(kind, rows):
    x = data = o.parameter([1, rows, WIDTH], Type.f32, name="x")
    for _ in range(LAYERS):
        y = o.swish(o.matmul(x, weights(kind, INNER, WIDTH), False, True))
        x = o.add(x, o.matmul(y, weights(kind, WIDTH, INNER), False, True))
    return ov.Model([o.result(x)], [data], kind)


def main():
    for kind in ("f32", "f16", "u8", "i8", "u4", "i4"):
        for rows in (1, 64):
            ov.save_model(network(kind, rows), Path(sys.argv[1]) / f"{kind}_{rows}.xml", compress_to_fp16=False)


if __name__ == "__main__":
    main()
