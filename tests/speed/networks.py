"""Networks that no library has in this form: a detector, a U-Net, a recurrent network and a step of a decoder."""

import torch
from torch import nn


class Block(nn.Sequential):
    """Convolution, normalisation, SiLU."""

    def __init__(self, inputs, outputs, size=1, stride=1):
        convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(outputs), nn.SiLU())


class Bottleneck(nn.Module):
    def __init__(self, channels, residual):
        super().__init__()
        self.body, self.residual = nn.Sequential(Block(channels, channels, 3), Block(channels, channels, 3)), residual

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class C2f(nn.Module):
    """Halves of a convolution's channels, bottlenecks after the second one, all of them concatenated."""

    def __init__(self, inputs, outputs, count, residual):
        super().__init__()
        half = outputs // 2
        self.first, self.last = Block(inputs, outputs), Block((2 + count) * half, outputs)
        self.blocks = nn.ModuleList(Bottleneck(half, residual) for _ in range(count))

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Max pooling three times in a row, all results concatenated."""

    def __init__(self, channels):
        super().__init__()
        self.first, self.last = Block(channels, channels // 2), Block(channels * 2, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        x = self.first(x)
        y = self.pool(x)
        z = self.pool(y)
        return self.last(torch.cat([x, y, z, self.pool(z)], 1))


class Detector(nn.Module):
    """The layers of YOLOv8n, up to boxes as distances and class probabilities."""

    CLASSES, BINS = 80, 16

    def __init__(self):
        super().__init__()
        self.low = nn.Sequential(
            Block(3, 16, 3, 2), Block(16, 32, 3, 2), C2f(32, 32, 1, True), Block(32, 64, 3, 2), C2f(64, 64, 2, True)
        )
        self.middle = nn.Sequential(Block(64, 128, 3, 2), C2f(128, 128, 2, True))
        self.high = nn.Sequential(Block(128, 256, 3, 2), C2f(256, 256, 1, True), Pyramid(256))
        self.larger = nn.Upsample(scale_factor=2)
        self.down = nn.ModuleList([C2f(384, 128, 1, False), C2f(192, 64, 1, False)])
        self.smaller = nn.ModuleList([Block(64, 64, 3, 2), Block(128, 128, 3, 2)])
        self.up = nn.ModuleList([C2f(192, 128, 1, False), C2f(384, 256, 1, False)])
        self.boxes = nn.ModuleList(self.head(channels, 64, 4 * self.BINS) for channels in (64, 128, 256))
        self.classes = nn.ModuleList(self.head(channels, 80, self.CLASSES) for channels in (64, 128, 256))
        self.register_buffer("bins", torch.arange(float(self.BINS)))

    @staticmethod
    def head(inputs, hidden, outputs):
        return nn.Sequential(Block(inputs, hidden, 3), Block(hidden, hidden, 3), nn.Conv2d(hidden, outputs, 1))

    def forward(self, x):
        low = self.low(x)
        middle = self.middle(low)
        high = self.high(middle)
        down = self.down[0](torch.cat([self.larger(high), middle], 1))
        fine = self.down[1](torch.cat([self.larger(down), low], 1))
        medium = self.up[0](torch.cat([self.smaller[0](fine), down], 1))
        coarse = self.up[1](torch.cat([self.smaller[1](medium), high], 1))
        scales = zip(self.boxes, self.classes, (fine, medium, coarse))
        all_scales = torch.cat([torch.cat([boxes(y), classes(y)], 1).flatten(2) for boxes, classes, y in scales], 2)
        boxes, classes = all_scales.split([4 * self.BINS, self.CLASSES], 1)
        distances = (boxes.view(1, 4, self.BINS, -1).softmax(2) * self.bins.view(1, 1, self.BINS, 1)).sum(2)
        return torch.cat([distances, classes.sigmoid()], 1)


class UNet(nn.Module):
    CHANNELS = (32, 64, 128, 256)

    def __init__(self):
        super().__init__()
        pairs = list(zip(self.CHANNELS, self.CHANNELS[1:]))
        self.down = nn.ModuleList([self.double(3, self.CHANNELS[0])] + [self.double(a, b) for a, b in pairs])
        self.larger = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs)
        self.up = nn.ModuleList(self.double(2 * a, a) for a, _ in pairs)
        self.pool, self.last = nn.MaxPool2d(2), nn.Conv2d(self.CHANNELS[0], 2, 1)

    @staticmethod
    def double(inputs, outputs):
        layers = []
        for channels in (inputs, outputs):
            layers += [nn.Conv2d(channels, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, x):
        kept = []
        for i, down in enumerate(self.down):
            x = down(self.pool(x) if i else x)
            kept.append(x)
        for larger, up, side in reversed(list(zip(self.larger, self.up, kept))):
            x = up(torch.cat([side, larger(x)], 1))
        return self.last(x)


class Recurrent(nn.Module):
    """Two LSTM layers over 64 steps and a projection."""

    def __init__(self):
        super().__init__()
        self.lstm, self.last = nn.LSTM(128, 256, 2, batch_first=True), nn.Linear(256, 40)

    def forward(self, x):
        return self.last(self.lstm(x)[0])


class DecoderStep(nn.Module):
    """One token through four layers of a Llama with 256 tokens of keys and values, which are part of the one input."""

    HEADS, GROUPS, SIZE, WIDTH, HIDDEN, LAYERS, WORDS, PAST = 16, 8, 64, 1024, 2816, 4, 4000, 256
    CACHE = GROUPS * PAST * SIZE
    INPUTS = WIDTH + LAYERS * 2 * CACHE

    def __init__(self):
        super().__init__()
        inner, shared = self.HEADS * self.SIZE, self.GROUPS * self.SIZE
        sizes = {
            "q": (self.WIDTH, inner), "k": (self.WIDTH, shared), "v": (self.WIDTH, shared), "o": (inner, self.WIDTH),
            "gate": (self.WIDTH, self.HIDDEN), "up": (self.WIDTH, self.HIDDEN), "down": (self.HIDDEN, self.WIDTH),
        }
        layer = lambda: nn.ModuleDict({name: nn.Linear(*size, bias=False) for name, size in sizes.items()})
        self.layers = nn.ModuleList(layer() for _ in range(self.LAYERS))
        self.scales = nn.Parameter(torch.rand(2 * self.LAYERS + 1, self.WIDTH))
        self.words = nn.Linear(self.WIDTH, self.WORDS, bias=False)
        angles = torch.arange(self.SIZE // 2) * 0.1
        self.cos, self.sin = (nn.Parameter(f(torch.cat([angles, angles]))) for f in (torch.cos, torch.sin))

    def norm(self, x, i):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.scales[i]

    def rotate(self, x):
        a, b = x[..., : self.SIZE // 2], x[..., self.SIZE // 2 :]
        return x * self.cos + torch.cat([-b, a], -1) * self.sin

    def forward(self, packed):
        x, at = packed[:, : self.WIDTH].reshape(1, 1, self.WIDTH), self.WIDTH
        split = lambda y, heads: y.reshape(1, 1, heads, self.SIZE).transpose(1, 2)
        for i, layer in enumerate(self.layers):
            y = self.norm(x, 2 * i)
            q = self.rotate(split(layer["q"](y), self.HEADS))
            k, v = self.rotate(split(layer["k"](y), self.GROUPS)), split(layer["v"](y), self.GROUPS)
            past = [packed[:, at + n * self.CACHE : at + (n + 1) * self.CACHE] for n in (0, 1)]
            at += 2 * self.CACHE
            k, v = (
                torch.cat([old.reshape(1, self.GROUPS, self.PAST, self.SIZE), new], 2)
                .repeat_interleave(self.HEADS // self.GROUPS, 1)
                for old, new in zip(past, (k, v))
            )
            y = torch.softmax(q @ k.transpose(2, 3) / self.SIZE**0.5, -1) @ v
            x = x + layer["o"](y.transpose(1, 2).reshape(1, 1, self.HEADS * self.SIZE))
            y = self.norm(x, 2 * i + 1)
            x = x + layer["down"](nn.functional.silu(layer["gate"](y)) * layer["up"](y))
        return self.words(self.norm(x, 2 * self.LAYERS))
