"""Trains the digits classifier in numpy and writes the model, the held-out images and their labels.

Usage: python train.py [folder]    (needs numpy, scikit-learn and openvino)
"""

import re
import sys
from pathlib import Path

import numpy as np
import openvino as ov
import openvino.opset1 as opset1
import openvino.opset8 as ops
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SEED = 7
EPOCHS = 60
BATCH = 32


def patches(x):
    """[N, C, H, W] -> [N, H, W, C * 9], the 3x3 neighbourhoods with a border of zeros."""
    n, c, h, w = x.shape
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    taps = [padded[:, :, i : i + h, j : j + w] for i in range(3) for j in range(3)]
    return np.stack(taps, 2).transpose(0, 3, 4, 1, 2).reshape(n, h, w, c * 9)


def unpatch(grad, shape):
    """The transpose of `patches`."""
    n, c, h, w = shape
    grad = grad.reshape(n, h, w, c, 9).transpose(0, 3, 4, 1, 2)
    padded = np.zeros((n, c, h + 2, w + 2), grad.dtype)
    for tap in range(9):
        i, j = divmod(tap, 3)
        padded[:, :, i : i + h, j : j + w] += grad[:, :, tap]
    return padded[:, :, 1:-1, 1:-1]


def initial(rng):
    he = lambda *shape, fan: (rng.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32)
    return {
        "k1": he(8, 9, fan=9),
        "b1": np.zeros(8, np.float32),
        "k2": he(16, 72, fan=72),
        "b2": np.zeros(16, np.float32),
        "k3": he(256, 10, fan=256),
        "b3": np.zeros(10, np.float32),
    }


def forward(p, x):
    """Logits and what the backward pass needs."""
    c1 = patches(x)
    a1 = np.maximum(c1 @ p["k1"].T + p["b1"], 0).transpose(0, 3, 1, 2)
    c2 = patches(a1)
    a2 = np.maximum(c2 @ p["k2"].T + p["b2"], 0).transpose(0, 3, 1, 2)
    windows = a2.reshape(len(x), 16, 4, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(len(x), 16, 4, 4, 4)
    flat = windows.max(-1).reshape(len(x), 256)
    return flat @ p["k3"] + p["b3"], (c1, a1, c2, a2, windows, flat)


def backward(p, x, labels, keep):
    """Gradients of the mean cross entropy; `keep` is the dropout mask of the flat features."""
    logits, (c1, a1, c2, a2, windows, flat) = forward(p, x)
    flat = flat * keep
    logits = flat @ p["k3"] + p["b3"]
    e = np.exp(logits - logits.max(1, keepdims=True))
    d = e / e.sum(1, keepdims=True)
    d[np.arange(len(x)), labels] -= 1
    d /= len(x)
    g = {"k3": flat.T @ d, "b3": d.sum(0)}
    d = (d @ p["k3"].T * keep).reshape(len(x), 16, 4, 4, 1)
    first = np.arange(4) == windows.argmax(-1)[..., None]
    d = (d * first).reshape(len(x), 16, 4, 4, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(a2.shape) * (a2 > 0)
    d = d.transpose(0, 2, 3, 1)
    g["k2"], g["b2"] = np.einsum("nhwo,nhwc->oc", d, c2, optimize=True), d.sum((0, 1, 2))
    d = unpatch(d @ p["k2"], a1.shape) * (a1 > 0)
    d = d.transpose(0, 2, 3, 1)
    g["k1"], g["b1"] = np.einsum("nhwo,nhwc->oc", d, c1, optimize=True), d.sum((0, 1, 2))
    return g


def shifted(x, rng):
    """Moves each image by up to one pixel."""
    out = np.zeros_like(x)
    for image, target in zip(x, out):
        dy, dx = rng.integers(-1, 2, 2)
        target[:] = np.roll(image, (dy, dx), (1, 2))
    return out


def train(x, labels):
    """Adam with a falling rate, dropout on the features and shifted images."""
    rng = np.random.default_rng(SEED)
    p = initial(rng)
    m = {k: np.zeros_like(v) for k, v in p.items()}
    s = {k: np.zeros_like(v) for k, v in p.items()}
    step, total = 0, EPOCHS * (len(x) // BATCH)
    for _ in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            chosen = order[start : start + BATCH]
            keep = ((rng.random((BATCH, 256)) < 0.7) / 0.7).astype(np.float32)
            batch = x[chosen]
            batch = np.where(rng.random((BATCH, 1, 1, 1)) < 0.4, shifted(batch, rng), batch)
            g = backward(p, batch, labels[chosen], keep)
            step += 1
            rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * step / total))
            for k in p:
                m[k] = 0.9 * m[k] + 0.1 * g[k]
                s[k] = 0.999 * s[k] + 0.001 * g[k] ** 2
                change = m[k] / (1 - 0.9**step) / (np.sqrt(s[k] / (1 - 0.999**step)) + 1e-8)
                p[k] = (p[k] - rate * (change + 1e-3 * p[k])).astype(np.float32)
    return p


def network(p):
    """The trained parameters as an OpenVINO model: f32 [1, 1, 8, 8] -> probabilities [1, 10]."""

    def named(node, name):
        node.set_friendly_name(name)
        return node

    def layer(x, kernel, bias, name):
        k = named(ops.constant(kernel), f"{name}_kernel")
        y = named(ops.convolution(x, k, [1, 1], [1, 1], [1, 1], [1, 1]), name)
        y = named(ops.add(y, named(ops.constant(bias.reshape(1, -1, 1, 1)), f"{name}_bias")), f"{name}_add")
        return named(ops.relu(y), f"{name}_relu")

    image = ops.parameter([1, 1, 8, 8], np.float32, name="image")
    image.output(0).set_names({"image"})
    x = layer(image, p["k1"].reshape(8, 1, 3, 3), p["b1"], "conv1")
    x = layer(x, p["k2"].reshape(16, 8, 3, 3), p["b2"], "conv2")
    x = named(opset1.max_pool(x, [2, 2], [0, 0], [0, 0], [2, 2]), "pool")
    x = named(ops.reshape(x, named(ops.constant(np.array([1, 256], np.int64)), "flat_shape"), False), "flat")
    x = named(ops.matmul(x, named(ops.constant(p["k3"]), "dense_kernel"), False, False), "dense")
    x = named(ops.add(x, named(ops.constant(p["b3"].reshape(1, 10)), "dense_bias")), "dense_add")
    x = named(ops.softmax(x, 1), "probabilities")
    x.output(0).set_names({"probabilities"})
    result = named(ov.op.Result(x.output(0)), "result")
    return ov.Model([result], [image], "digits")


def accuracy(path, images, labels):
    compiled = ov.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = [int(np.argmax(compiled([image[None]])[0])) for image in images]
    return sum(a == b for a, b in zip(found, labels))


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])
    digits = load_digits()
    pixels = digits.images.astype(np.uint8)
    kept, held, kept_labels, held_labels = train_test_split(
        pixels, digits.target, test_size=360, random_state=SEED, stratify=digits.target
    )
    scale = lambda p: (p.astype(np.float32) / 16)[:, None]
    parameters = train(scale(kept), kept_labels)
    model = network(parameters)
    ov.serialize(model, folder / "digits.xml", folder / "digits.bin")
    ov.save_model(model, folder / "digits_f16.xml", compress_to_fp16=True)
    half = folder / "digits_f16.xml"
    half.write_text(re.sub(r"\n\t<rt_info>.*?\n\t</rt_info>", "\n\t<rt_info />", half.read_text(), flags=re.S))
    (folder / "held_out.bin").write_bytes(held.tobytes())
    (folder / "held_out_labels.bin").write_bytes(held_labels.astype(np.uint8).tobytes())
    for name in ("digits", "digits_f16"):
        print(name, accuracy(folder / f"{name}.xml", scale(held), held_labels), "of", len(held))


main()
