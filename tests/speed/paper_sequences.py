"""Networks of papers for sounds, texts, tables and small devices: NETWORKS, by name what makes one and its inputs."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from paper_images import Residual, conv, image


def eegnet():
    """Lawhern et al., EEGNet, 2018."""
    first = [nn.Conv2d(1, 8, (1, 64), padding=(0, 32)), nn.BatchNorm2d(8)]
    second = [nn.Conv2d(8, 16, (64, 1), groups=8), nn.BatchNorm2d(16), nn.ELU(), nn.AvgPool2d((1, 4))]
    third = [nn.Conv2d(16, 16, (1, 16), padding=(0, 8), groups=16), nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.ELU()]
    return nn.Sequential(*first, *second, *third, nn.AvgPool2d((1, 8)), nn.Flatten(), nn.Linear(64, 4))


class TabNet(nn.Module):
    """Arik and Pfister, TabNet, 2019; three steps, softmax masks."""

    def __init__(self, features=64, width=32):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)
        self.shared = nn.Linear(features, 2 * width)
        self.own = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(3))
        self.masks = nn.ModuleList(nn.Linear(width, features) for _ in range(3))
        self.last = nn.Linear(width, 2)

    def forward(self, x):
        x = self.norm(x)
        prior, total, features = torch.ones_like(x), 0, F.glu(self.shared(x))
        for own, mask in zip(self.own, self.masks):
            m = (mask(features) * prior).softmax(-1)
            prior = prior * (1.3 - m)
            h = F.glu(self.shared(x * m))
            features = (h + F.glu(own(h))) * math.sqrt(0.5)
            total = total + features.relu()
        return self.last(total)


class FNet(nn.Module):
    """Lee-Thorp et al., FNet, 2021; the transform as two products with matrices of cosines and sines."""

    def __init__(self, tokens=64, width=128, layers=2):
        super().__init__()
        for name, n in (("t", tokens), ("w", width)):
            angle = 2 * math.pi / n * torch.arange(n).outer(torch.arange(n))
            self.register_buffer(f"cos_{name}", angle.cos())
            self.register_buffer(f"sin_{name}", angle.sin())
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        dense = lambda: nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dense = nn.ModuleList(dense() for _ in range(layers))

    def forward(self, x):
        for i, dense in enumerate(self.dense):
            mixed = self.cos_t @ (x @ self.cos_w) - self.sin_t @ (x @ self.sin_w)
            x = self.norms[2 * i](x + mixed)
            x = self.norms[2 * i + 1](x + dense(x))
        return x


def ds_cnn():
    """Zhang et al., Hello Edge, 2017: keywords, as in MLPerf Tiny."""
    blocks = [layer for _ in range(4) for layer in conv(64, 64, groups=64) + conv(64, 64, 1)]
    return nn.Sequential(
        *conv(1, 64, 5, 2), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12), nn.Softmax(1)
    )


def anomalies():
    """The autoencoder of MLPerf Tiny."""
    sizes = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128]
    layers = [layer for i, o in zip(sizes, sizes[1:]) for layer in (nn.Linear(i, o), nn.BatchNorm1d(o), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(128, 640))


def resnet8():
    """The network for CIFAR-10 of MLPerf Tiny."""

    def block(i, o, s):
        body = conv(i, o, 3, s) + conv(o, o, act=None)
        return Residual(*body, shortcut=nn.Conv2d(i, o, 1, s) if s > 1 else None, act=nn.ReLU())

    blocks = [block(16, 16, 1), block(16, 32, 2), block(32, 64, 2)]
    return nn.Sequential(*conv(3, 16), *blocks, nn.AvgPool2d(8), nn.Flatten(), nn.Linear(64, 10), nn.Softmax(1))


def wake_words():
    """MobileNetV1 of a quarter of its width, 96 x 96, of MLPerf Tiny."""
    widths = [8, 16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256]
    strides = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1]
    layers = conv(3, 8, 3, 2)
    for i, o, s in zip(widths, widths[1:], strides):
        layers += conv(i, i, 3, s, groups=i) + conv(i, o, 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 2), nn.Softmax(1))


class Dlrm(nn.Module):
    """Naumov et al., Deep Learning Recommendation Model, 2019; 16 rows."""

    def __init__(self, tables=8, width=16):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())
        self.register_buffer(
            "places", torch.tensor([i * (tables + 1) + j for i in range(tables + 1) for j in range(i)])
        )

    def forward(self, dense, sparse):
        dense = self.bottom(dense)
        rows = torch.stack([dense] + [table(sparse[:, i]) for i, table in enumerate(self.tables)], 1)
        products = (rows @ rows.transpose(1, 2)).flatten(1)[:, self.places]
        return self.top(torch.cat([dense, products], 1))


class NBeats(nn.Module):
    """Oreshkin et al., N-BEATS, 2019; three generic blocks."""

    def __init__(self, back=60, ahead=12, width=128):
        super().__init__()
        layers = lambda: sum([[nn.Linear(back if i == 0 else width, width), nn.ReLU()] for i in range(4)], [])
        self.blocks = nn.ModuleList(nn.Sequential(*layers(), nn.Linear(width, back + ahead)) for _ in range(3))
        self.back = back

    def forward(self, x):
        total = 0
        for block in self.blocks:
            y = block(x)
            x, total = x - y[:, : self.back], total + y[:, self.back :]
        return total


class Conformer(nn.Module):
    """Gulati et al., Conformer, 2020: one block."""

    def __init__(self, d=144, heads=4):
        super().__init__()
        dense = lambda: nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))
        self.first, self.second = dense(), dense()
        self.norm, self.qkv, self.out, self.heads = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d), heads
        self.before, self.gate = nn.LayerNorm(d), nn.Conv1d(d, 2 * d, 1)
        self.depth = nn.Sequential(
            nn.Conv1d(d, d, 31, padding=15, groups=d), nn.BatchNorm1d(d), nn.SiLU(), nn.Conv1d(d, d, 1)
        )
        self.last = nn.LayerNorm(d)

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        y = F.glu(self.gate(self.before(x).transpose(1, 2)), 1)
        x = x + self.depth(y).transpose(1, 2)
        return self.last(x + 0.5 * self.second(x))


def quartznet():
    """Kriman et al., QuartzNet, 2019: three blocks."""

    def unit(i, o, k, act=True):
        layers = [nn.Conv1d(i, i, k, padding=k // 2, groups=i), nn.Conv1d(i, o, 1), nn.BatchNorm1d(o)]
        return layers + ([nn.ReLU()] if act else [])

    block = lambda c, k: Residual(*unit(c, c, k), *unit(c, c, k, False), shortcut=nn.Conv1d(c, c, 1), act=nn.ReLU())
    first = [nn.Conv1d(64, 128, 33, 2, 16), nn.BatchNorm1d(128), nn.ReLU()]
    return nn.Sequential(
        *first, block(128, 33), block(128, 39), block(128, 51), nn.Conv1d(128, 29, 1), nn.LogSoftmax(1)
    )


class Tdnn(nn.Module):
    """Desplanques et al., ECAPA-TDNN, 2020: one block, attentive statistics."""

    def __init__(self, c=128, scale=8):
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(80, c, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(c))
        self.a, self.b = nn.Conv1d(c, c, 1), nn.Conv1d(c, c, 1)
        self.parts = nn.ModuleList(
            nn.Conv1d(c // scale, c // scale, 3, padding=2, dilation=2) for _ in range(scale - 1)
        )
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool1d(1), nn.Conv1d(c, 32, 1), nn.ReLU(), nn.Conv1d(32, c, 1), nn.Sigmoid()
        )
        self.attention = nn.Sequential(nn.Conv1d(c, 32, 1), nn.Tanh(), nn.Conv1d(32, c, 1), nn.Softmax(2))
        self.last = nn.Linear(2 * c, 64)

    def forward(self, x):
        x = self.first(x)
        first, *rest = F.relu(self.a(x)).chunk(8, 1)
        done = [first]
        for layer, part in zip(self.parts, rest):
            done.append(F.relu(layer(part if len(done) == 1 else part + done[-1])))
        y = self.b(torch.cat(done, 1))
        x = x + y * self.gate(y)
        w = self.attention(x)
        mean = (w * x).sum(2)
        deviation = ((w * x * x).sum(2) - mean * mean).clamp(min=1e-4).sqrt()
        return self.last(torch.cat([mean, deviation], 1))


def hifigan():
    """Kong et al., HiFi-GAN, 2020: two levels of the generator, an eighth of the channels."""

    def residual(c, k):
        layers = lambda d: [nn.LeakyReLU(0.1), nn.Conv1d(c, c, k, padding=d * (k // 2), dilation=d)]
        return nn.Sequential(*(Residual(*layers(d), *layers(1)) for d in (1, 3, 5)))

    up = lambda i, k: [nn.LeakyReLU(0.1), nn.ConvTranspose1d(i, i // 2, k, k // 2, k // 4), residual(i // 2, 3)]
    return nn.Sequential(
        nn.Conv1d(80, 64, 7, padding=3),
        *up(64, 16),
        *up(32, 8),
        nn.LeakyReLU(),
        nn.Conv1d(16, 1, 7, padding=3),
        nn.Tanh(),
    )


class ConvLstm(nn.Module):
    """Shi et al., Convolutional LSTM, 2015: four steps."""

    def __init__(self, i=1, c=16):
        super().__init__()
        self.gates, self.last, self.c = nn.Conv2d(i + c, 4 * c, 3, padding=1), nn.Conv2d(c, 1, 1), c

    def forward(self, x):
        b, t, _, h, w = x.shape
        state = cell = torch.zeros(b, self.c, h, w)
        for i in range(t):
            a, f, o, g = self.gates(torch.cat([x[:, i], state], 1)).chunk(4, 1)
            cell = f.sigmoid() * cell + a.sigmoid() * g.tanh()
            state = o.sigmoid() * cell.tanh()
        return self.last(state)


class GraphAttention(nn.Module):
    """Velickovic et al., Graph Attention Networks, 2018: two layers over 128 nodes."""

    def __init__(self, i=64, c=8, heads=8, classes=7):
        super().__init__()
        self.first, self.second = nn.Linear(i, c * heads), nn.Linear(c * heads, classes)
        self.a, self.b = nn.Parameter(torch.randn(heads, 2 * c)), nn.Parameter(torch.randn(1, 2 * classes))
        self.c, self.heads, self.classes = c, heads, classes

    def layer(self, x, weights, c, adjacent):
        x = x.view(x.shape[0], -1, c).transpose(0, 1)
        left, right = x @ weights[:, :c, None], x @ weights[:, c:, None]
        e = F.leaky_relu(left + right.transpose(1, 2), 0.2)
        return (e + adjacent).softmax(-1) @ x

    def forward(self, x, adjacent):
        x = self.layer(self.first(x), self.a, self.c, adjacent).transpose(0, 1).flatten(1)
        return self.layer(self.second(F.elu(x)), self.b, self.classes, adjacent)[0].log_softmax(-1)


def yamnet():
    """MobileNetV1 over 96 x 64 spectrograms, half the width."""
    widths, strides = [16, 32, 64, 64, 128, 128, 256, 256], [1, 2, 1, 2, 1, 2, 1]
    layers = conv(1, 16, 3, 2)
    for i, o, s in zip(widths, widths[1:], strides):
        layers += conv(i, i, 3, s, groups=i) + conv(i, o, 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 521), nn.Sigmoid())


def crepe():
    """Kim et al., CREPE, 2018; a quarter of the width."""
    unit = lambda i, o, k, s: [nn.Conv1d(i, o, k, s, k // 2), nn.ReLU(), nn.BatchNorm1d(o), nn.MaxPool1d(2)]
    return nn.Sequential(
        *unit(1, 64, 512, 4),
        *unit(64, 16, 64, 1),
        *unit(16, 16, 64, 1),
        *unit(16, 32, 64, 1),
        nn.Flatten(),
        nn.Linear(512, 360),
        nn.Sigmoid(),
    )


class Demucs(nn.Module):
    """Defossez et al., Demucs, 2019: three levels, eight channels, no recurrence."""

    def __init__(self):
        super().__init__()
        widths = [2, 8, 16, 32]
        down = lambda i, o: nn.Sequential(nn.Conv1d(i, o, 8, 4, 2), nn.ReLU(), nn.Conv1d(o, 2 * o, 1), nn.GLU(1))
        up = lambda i, o: nn.Sequential(nn.Conv1d(i, 2 * i, 3, padding=1), nn.GLU(1), nn.ConvTranspose1d(i, o, 8, 4, 2))
        self.down = nn.ModuleList(down(i, o) for i, o in zip(widths, widths[1:]))
        self.up = nn.ModuleList(up(i, o) for i, o in zip(widths[:0:-1], widths[-2::-1]))

    def forward(self, x):
        kept = []
        for down in self.down:
            x = down(x)
            kept.append(x)
        for up in self.up:
            x = up(x + kept.pop())
        return x


class Sasrec(nn.Module):
    """Kang and McAuley, SASRec, 2018: two blocks over 50 items."""

    def __init__(self, items=2000, d=64):
        super().__init__()
        self.items, self.places = nn.Embedding(items, d), nn.Parameter(torch.randn(50, d))
        layer = lambda: nn.TransformerEncoderLayer(d, 2, d, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.ModuleList(layer() for _ in range(2))
        self.register_buffer("mask", torch.full((50, 50), float("-inf")).triu(1))

    def forward(self, x):
        x = self.items(x) * 8 + self.places
        for layer in self.layers:
            x = layer(x, self.mask)
        return x[:, -1] @ self.items.weight.t()


NETWORKS = {
    "eegnet": (eegnet, image(1, 64, 128)),
    "tabnet": (TabNet, [torch.zeros(16, 64)]),
    "fnet": (FNet, [torch.zeros(1, 64, 128)]),
    "ds_cnn": (ds_cnn, image(1, 49, 10)),
    "anomalies": (anomalies, [torch.zeros(1, 640)]),
    "anomalies_b32": (anomalies, [torch.zeros(32, 640)]),
    "resnet8": (resnet8, image(3, 32, 32)),
    "wake_words": (wake_words, image(3, 96, 96)),
    "dlrm": (Dlrm, [torch.zeros(16, 13), torch.zeros(16, 8, dtype=torch.long)]),
    "nbeats": (NBeats, [torch.zeros(8, 60)]),
    "conformer": (Conformer, [torch.zeros(1, 100, 144)]),
    "quartznet": (quartznet, image(64, 200)),
    "ecapa": (Tdnn, image(80, 200)),
    "hifigan": (hifigan, image(80, 50)),
    "convlstm": (ConvLstm, [torch.zeros(1, 4, 1, 32, 32)]),
    "gat": (GraphAttention, [torch.zeros(128, 64), torch.zeros(128, 128)]),
    "yamnet": (yamnet, image(1, 96, 64)),
    "crepe": (crepe, image(1, 1024)),
    "demucs": (Demucs, image(2, 4096)),
    "sasrec": (Sasrec, [torch.zeros(1, 50, dtype=torch.long)]),
}
