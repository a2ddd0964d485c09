"""Small random networks of many kinds: FOLDER/random_SEED_0.xml, ..., and what each is on standard output.

Needs torch and openvino: python random_networks.py FOLDER SEED COUNT
"""

import sys
from pathlib import Path
from random import Random

import openvino as ov
import torch
import torch.nn as nn

torch.backends.mha.set_fastpath_enabled(False)
CHANNELS = [4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128]
# Those that are used most come up most.
ACTIVATIONS = [nn.ReLU] * 3 + [
    getattr(nn, name) for name in "SiLU GELU LeakyReLU ELU Hardswish ReLU6 Tanh Sigmoid PReLU Mish".split()
]


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Gate(nn.Sequential):
    """Squeeze and excitation."""

    def __init__(self, channels):
        few = max(4, channels // 4)
        layers = (
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, few, 1),
            nn.ReLU(),
            nn.Conv2d(few, channels, 1),
            nn.Sigmoid(),
        )
        super().__init__(*layers)

    def forward(self, x):
        return x * super().forward(x)


class Branches(nn.ModuleList):
    def forward(self, x):
        return torch.cat([branch(x) for branch in self], 1)


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


class Outputs(nn.Module):
    """The outputs of a recurrent layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class Writer:
    """Layers one after the other, with the channels and the size of what comes out."""

    def __init__(self, random, channels, size):
        self.random, self.channels, self.size, self.layers = random, channels, size, []
        self.activation = random.choice(ACTIVATIONS)

    def stride(self, least):
        stride = self.random.choice([1, 1, 2]) if self.size >= least else 1
        self.size = (self.size + stride - 1) // stride
        return stride

    def norm(self, channels):
        kind = self.random.choice(["batch"] * 4 + ["group", "instance", "none"])
        if kind == "group":
            groups = [n for n in (1, 2, 4) if channels % n == 0]
            return nn.GroupNorm(self.random.choice(groups), channels)
        of = {"batch": nn.BatchNorm2d, "instance": lambda n: nn.InstanceNorm2d(n, affine=True), "none": nn.Identity}
        return of[kind](channels) if kind != "none" else nn.Identity()

    def convolution(self, before, after, size=3, stride=1, groups=1, dilation=1):
        pad = size // 2 * dilation
        return nn.Conv2d(before, after, size, stride, pad, dilation, groups, self.random.random() < 0.5)

    def block(self, *arguments, **more):
        after = arguments[1]
        return [self.convolution(*arguments, **more), self.norm(after), self.activation()]

    def add(self, kind):
        pick, before, after = self.random.choice, self.channels, self.random.choice(CHANNELS)
        layers, results = [], before
        if kind == "convolution":
            layers, results = self.block(before, after, pick([1, 3, 3, 3, 5, 7]), self.stride(8)), after
        elif kind == "dilated":
            layers, results = self.block(before, after, dilation=2), after
        elif kind == "separable":
            window = pick([3, 3, 5, 7])
            layers = self.block(before, before, window, self.stride(8), before) + self.block(before, after, 1)
            results = after
        elif kind == "residual":
            layers = [Residual(*self.block(before, before), self.convolution(before, before)), self.activation()]
        elif kind == "bottleneck":
            few = max(4, before // 4)
            inner = self.block(before, few, 1) + self.block(few, few) + [self.convolution(few, before, 1)]
            layers = [Residual(*inner), self.activation()]
        elif kind == "groups":
            groups = [n for n in (2, 3, 4, 8) if before % n == 0 and after % n == 0]
            if groups:
                layers, results = self.block(before, after, groups=pick(groups)), after
        elif kind == "gate":
            layers = [Gate(before)]
        elif kind == "branches":
            few, window = max(4, after // 2), nn.MaxPool2d(3, 1, 1)
            one = [self.convolution(before, few, 1), self.activation()]
            three = [self.convolution(before, few, 1), self.activation(), self.convolution(few, few), self.activation()]
            pooled = [window, self.convolution(before, few, 1)]
            layers, results = [Branches(nn.Sequential(*b) for b in (one, three, pooled))], 3 * few
        elif kind == "pooling" and self.size >= 6:
            kinds = [
                nn.MaxPool2d(2),
                nn.AvgPool2d(2),
                nn.MaxPool2d(3, 2, 1),
                nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            ]
            layers = [pick(kinds)]
            self.size //= 2
        elif kind == "larger" and self.size <= 32:
            kinds = [nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=2, mode="bilinear")]
            kinds += [nn.ConvTranspose2d(before, before, 2, 2), nn.ConvTranspose2d(before, before, 4, 2, 1)]
            layers = [pick(kinds)]
            self.size *= 2
        self.layers += layers
        self.channels = results


KINDS = ["convolution"] * 3 + "separable residual bottleneck pooling gate groups branches larger dilated".split()


def images(random):
    pick = random.choice
    size, images, channels = pick([28, 32, 48, 64, 80, 96, 112]), pick([1, 1, 1, 2, 4, 8]), pick([1, 3, 3, 4])
    writer, kinds = Writer(random, channels, size), ["convolution"] + [pick(KINDS) for _ in range(random.randint(2, 6))]
    for kind in kinds:
        writer.add(kind)
    x, ending = torch.randn(images, channels, size, size), pick(["mean", "flat", "pixels"])
    if ending == "mean":
        writer.layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(writer.channels, pick([2, 10, 100]))]
    elif ending == "pixels":
        writer.layers.append(writer.convolution(writer.channels, pick([1, 2, 3, 21]), pick([1, 3])))
    else:
        few = pick([10, 64, 128])
        writer.layers += [nn.Flatten(), nn.LazyLinear(few), writer.activation(), nn.Linear(few, 10)]
    return writer.layers, x, [*kinds, writer.activation.__name__, ending]


def sequences(random):
    pick = random.choice
    x, heads = torch.randn(pick([1, 1, 2, 4]), pick([7, 16, 50, 100, 197, 256]), pick([5, 16, 40, 128])), pick(
        [1, 2, 3, 4, 6, 8]
    )
    width = heads * pick([8, 12, 16, 20, 32, 48, 64])
    one = lambda: nn.TransformerEncoderLayer(
        width,
        heads,
        width * pick([1, 2, 3, 4]),
        0.0,
        pick(["relu", "gelu"]),
        batch_first=True,
        norm_first=pick([True, False]),
    )
    layers = [nn.Linear(x.shape[2], width)] + [one() for _ in range(random.randint(1, 3))] + pick([[], [Mean()]])
    return [*layers, nn.Linear(width, pick([2, 10, 64]))], x, ["encoder", heads, width]


def recurrent(random):
    pick = random.choice
    kind, width, both = (
        pick([nn.LSTM, nn.GRU, nn.RNN]),
        pick([16, 24, 32, 50, 64, 100, 128, 256]),
        random.random() < 0.3,
    )
    x = torch.randn(pick([1, 1, 4, 8]), pick([10, 20, 50, 100]), pick([1, 8, 40, 80]))
    layer = kind(x.shape[2], width, pick([1, 2]), batch_first=True, bidirectional=both)
    return [Outputs(layer), nn.Linear(width * (1 + both), pick([3, 20]))], x, [kind.__name__, width, both]


def dense(random):
    pick = random.choice
    x, layers, activation = (
        torch.randn(pick([1, 1, 8, 32, 100]), pick([4, 10, 30, 64, 200, 784])),
        [],
        pick(ACTIVATIONS[:-2]),
    )
    before = x.shape[1]
    for _ in range(random.randint(2, 5)):
        width = pick([8, 10, 32, 50, 64, 100, 128, 256, 500, 512])
        layers += [nn.Linear(before, width), *pick([[], [nn.BatchNorm1d(width)], [nn.LayerNorm(width)]]), activation()]
        before = width
    return [*layers, nn.Linear(before, pick([1, 3, 10]))], x, ["dense", activation.__name__]


def signals(random):
    pick = random.choice
    x, layers, activation, what = (
        torch.randn(pick([1, 1, 4]), pick([1, 2, 6, 12, 40, 80]), pick([100, 187, 256, 500, 1000, 3000])),
        [],
        pick(ACTIVATIONS),
        [],
    )
    before = x.shape[1]
    for _ in range(random.randint(2, 6)):
        after, window, dilation = pick(CHANNELS), pick([3, 3, 5, 7, 9, 15, 31]), pick([1, 1, 1, 2, 4])
        stride, groups = pick([1, 1, 2]), pick([1, 1, 1, before])
        after = before if groups > 1 else after
        layers += [nn.Conv1d(before, after, window, stride, window // 2 * dilation, dilation, groups), activation()]
        what.append(f"{after}x{window}")
        before = after
    return (
        [*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(before, 5)],
        x,
        ["signals", *what, activation.__name__],
    )


FAMILIES = [images] * 4 + [sequences, recurrent, dense, signals, signals]


def main(folder, seed, count):
    for i in range(count):
        torch.manual_seed(1000 * seed + i)
        layers, x, what = FAMILIES[i % len(FAMILIES)](Random(1000 * seed + i))
        network = nn.Sequential(*layers).eval()
        with torch.no_grad():
            network(x)
        model = ov.convert_model(network, example_input=x, input=[tuple(x.shape)])
        name = f"random_{seed}_{i}"
        ov.save_model(model, folder / f"{name}.xml", compress_to_fp16=False)
        print(name, list(x.shape), *what, flush=True)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    main(target, int(sys.argv[2]), int(sys.argv[3]))
