"""More networks of papers, made smaller: series, tables, points, molecules, sounds, words: NETWORKS, by name what makes one and
its inputs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from paper_layers import Attention, Layer, dense, ids, tokens


class PatchTst(nn.Module):
    """Nie et al., PatchTST, 2023: 7 series of 336 steps."""

    def __init__(self, width=64):
        super().__init__()
        self.embed, self.place = nn.Linear(16, width), nn.Parameter(torch.randn(41, width))
        self.layers, self.head = nn.ModuleList(Layer(width) for _ in range(3)), nn.Linear(41 * width, 96)

    def forward(self, x):
        mean, deviation = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False).sqrt()
        y = ((x - mean) / (deviation + 1e-5)).transpose(1, 2)
        y = torch.stack([y[..., i : i + 16] for i in range(0, 321, 8)], 2).flatten(0, 1)
        y = self.embed(y) + self.place
        for layer in self.layers:
            y = layer(y)
        return self.head(y.flatten(1)).unflatten(0, (-1, 7)).transpose(1, 2) * deviation + mean


class DLinear(nn.Module):
    """Zeng et al., 2023: a moving average and the rest."""

    def __init__(self):
        super().__init__()
        self.mean, self.trend, self.season = nn.AvgPool1d(25, 1), nn.Linear(336, 96), nn.Linear(336, 96)

    def forward(self, x):
        padded = torch.cat([x[:, :1].repeat(1, 12, 1), x, x[:, -1:].repeat(1, 12, 1)], 1)
        trend = self.mean(padded.transpose(1, 2))
        return (self.trend(trend) + self.season(x.transpose(1, 2) - trend)).transpose(1, 2)


class Dgcnn(nn.Module):
    """Wang et al., Dynamic Graph CNN, 2019: neighbours by distance."""

    def __init__(self, near=10):
        super().__init__()
        self.near = near
        self.convs = nn.ModuleList(
            nn.Sequential(nn.Conv2d(2 * i, o, 1), nn.LeakyReLU(0.2)) for i, o in [(3, 32), (32, 64)]
        )
        self.head = nn.Sequential(nn.Conv1d(96, 256, 1), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(256, 40))

    def forward(self, x):
        outs = []
        for layer in self.convs:
            square = x.square().sum(1, keepdim=True)
            distance = 2 * x.transpose(1, 2) @ x - square - square.transpose(1, 2)
            index = distance.topk(self.near, -1)[1][0]
            around = x[0][:, index].unsqueeze(0)
            own = x.unsqueeze(-1).expand_as(around)
            x = layer(torch.cat([around - own, own], 1)).amax(-1)
            outs.append(x)
        return self.head(torch.cat(outs, 1))


class Nerf(nn.Module):
    """Mildenhall et al., 2020: 1024 points."""

    def __init__(self):
        super().__init__()
        self.first, self.second = dense(63, *[128] * 4, last=True), dense(191, *[128] * 3, 4)

    def forward(self, x):
        angles = (x.unsqueeze(-1) * 2.0 ** torch.arange(10)).flatten(1)
        x = torch.cat([x, angles.sin(), angles.cos()], -1)
        y = self.second(torch.cat([x, self.first(x)], -1))
        return torch.cat([y[:, :3].sigmoid(), y[:, 3:].relu()], -1)


class Siren(nn.Module):
    """Sitzmann et al., 2020."""

    def __init__(self):
        super().__init__()
        self.layers, self.last = nn.ModuleList(nn.Linear(i, 128) for i in (2, 128, 128)), nn.Linear(128, 3)

    def forward(self, x):
        for layer in self.layers:
            x = (30 * layer(x)).sin()
        return self.last(x)


class Linear(nn.Module):
    """Katharopoulos et al., Transformers are RNNs, 2020."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm, self.dense = nn.LayerNorm(width), dense(width, 4 * width, width, act=nn.GELU)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        y = (q @ (k.transpose(-2, -1) @ v)) / (q @ k.sum(-2).unsqueeze(-1) + 1e-6)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.dense(self.norm(x))


class Perceiver(nn.Module):
    """Jaegle et al., 2021: 32 latents over 1024 pixels."""

    def __init__(self, width=64):
        super().__init__()
        self.latents, self.embed = nn.Parameter(torch.randn(1, 32, width)), nn.Linear(35, width)
        self.cross, self.layers = Layer(width, cross=True), nn.ModuleList(Layer(width) for _ in range(3))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        y = self.cross(self.latents, self.embed(x))
        for layer in self.layers:
            y = layer(y)
        return self.head(y.mean(1))


class Rwkv(nn.Module):
    """Peng et al., RWKV, 2023: a step with its state."""

    def __init__(self, width=256):
        super().__init__()
        self.k, self.v, self.r, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.mix, self.bonus, self.decay = (nn.Parameter(torch.rand(width)) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x, last, num, den):
        y = self.norms[0](x)
        mixed = y * self.mix + last * (1 - self.mix)
        k, v, r = self.k(mixed), self.v(mixed), self.r(mixed).sigmoid()
        wkv = (num + (self.bonus + k).exp() * v) / (den + (self.bonus + k).exp())
        decay = (-self.decay.exp()).exp()
        x = x + self.out(r * wkv)
        x = x + self.down(self.up(self.norms[1](x)).relu().square())
        return x, y, decay * num + k.exp() * v, decay * den + k.exp()


class XVector(nn.Module):
    """Snyder et al., 2018: dilated lines, mean and deviation."""

    def __init__(self):
        super().__init__()
        sizes = [(24, 128, 5, 1), (128, 128, 3, 2), (128, 128, 3, 3), (128, 128, 1, 1), (128, 512, 1, 1)]
        self.lines = nn.Sequential(
            *(l for i, o, k, d in sizes for l in (nn.Conv1d(i, o, k, dilation=d), nn.ReLU(), nn.BatchNorm1d(o)))
        )
        self.head = dense(1024, 128, 128)

    def forward(self, x):
        x = self.lines(x)
        return self.head(torch.cat([x.mean(-1), x.std(-1)], -1))


class NoiseGru(nn.Module):
    """Valin, RNNoise, 2018: a step of three units."""

    def __init__(self):
        super().__init__()
        self.first, self.vad = nn.Linear(42, 24), nn.Linear(24, 1)
        self.cells = nn.ModuleList(nn.GRUCell(i, o) for i, o in ((24, 24), (90, 48), (114, 96)))
        self.gains = nn.Linear(96, 22)

    def forward(self, x, a, b, c):
        first = self.first(x).tanh()
        a = self.cells[0](first, a)
        b = self.cells[1](torch.cat([first, a, x], -1), b)
        c = self.cells[2](torch.cat([a, b, x], -1), c)
        return self.gains(c).sigmoid(), self.vad(a).sigmoid(), a, b, c


class DeepSpeech(nn.Module):
    """Amodei et al., Deep Speech 2, 2016: two convolutions and two recurrent layers."""

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(1, 16, (41, 11), (2, 2), (20, 5)), nn.BatchNorm2d(16), nn.Hardtanh(0, 20)]
        layers += [nn.Conv2d(16, 16, (21, 11), (2, 1), (10, 5)), nn.BatchNorm2d(16), nn.Hardtanh(0, 20)]
        self.convs = nn.Sequential(*layers)
        self.rnn, self.head = nn.GRU(16 * 41, 128, 2, batch_first=True, bidirectional=True), nn.Linear(256, 29)

    def forward(self, x):
        x = self.convs(x).flatten(1, 2).transpose(1, 2)
        return self.head(self.rnn(x)[0]).log_softmax(-1)


class Snake(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(1, width, 1) + 0.5)

    def forward(self, x):
        return x + (self.alpha * x).sin().square() / (self.alpha + 1e-9)


def codec():
    """Kumar et al., Descript audio codec, 2023: an encoder with periodic activations."""
    unit = lambda w, d: [Snake(w), nn.Conv1d(w, w, 7, padding=3 * d, dilation=d), Snake(w), nn.Conv1d(w, w, 1)]
    layers = [nn.Conv1d(1, 16, 7, padding=3)]
    for w, s in ((16, 2), (32, 4), (64, 8)):
        layers += unit(w, 1) + unit(w, 3) + [Snake(w), nn.Conv1d(w, 2 * w, 2 * s, s, s // 2)]
    return nn.Sequential(*layers, Snake(128), nn.Conv1d(128, 64, 3, padding=1))


class Tagger(nn.Module):
    """Lample et al., 2016: a bidirectional LSTM over words of characters."""

    def __init__(self):
        super().__init__()
        self.chars, self.words = nn.Embedding(100, 25), nn.Embedding(5000, 100)
        self.conv, self.rnn = nn.Conv1d(25, 30, 3, padding=1), nn.LSTM(130, 100, batch_first=True, bidirectional=True)
        self.head = nn.Linear(200, 17)

    def forward(self, words, chars):
        c = self.conv(self.chars(chars[0]).transpose(1, 2)).amax(-1).unsqueeze(0)
        return self.head(self.rnn(torch.cat([self.words(words), c], -1))[0])


class Translator(nn.Module):
    """Bahdanau et al., 2015: a step of the decoder with additive attention."""

    def __init__(self, width=128):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(2 * width, width), nn.Linear(width, 1)
        self.cell, self.head = nn.GRUCell(3 * width, width), nn.Linear(width, 4000)

    def forward(self, word, state, memory):
        score = self.v((self.q(state).unsqueeze(1) + self.k(memory)).tanh()).softmax(1)
        state = self.cell(torch.cat([word, (score * memory).sum(1)], -1), state)
        return self.head(state), state


class Fields(nn.Module):
    """Tables of 26 categories and 13 numbers."""

    def __init__(self, width=16):
        super().__init__()
        self.table, self.first = nn.Embedding(26000, width), nn.Embedding(26000, 1)
        self.offsets = nn.Buffer(torch.arange(26) * 1000)

    def embedded(self, ids):
        return self.table(ids + self.offsets)


class DeepFm(Fields):
    """Guo et al., DeepFM, 2017."""

    def __init__(self):
        super().__init__()
        self.deep = dense(26 * 16 + 13, 256, 128, 1)

    def forward(self, ids, numbers):
        v = self.embedded(ids)
        pairs = (v.sum(1).square() - v.square().sum(1)).sum(-1, keepdim=True) / 2
        return (
            self.first(ids + self.offsets).sum(1) + pairs + self.deep(torch.cat([v.flatten(1), numbers], -1))
        ).sigmoid()


class CrossNet(Fields):
    """Wang et al., DCN v2, 2021."""

    def __init__(self):
        super().__init__()
        n = 26 * 16 + 13
        self.cross, self.deep = nn.ModuleList(nn.Linear(n, n) for _ in range(3)), dense(n, 256, 128, last=True)
        self.head = nn.Linear(n + 128, 1)

    def forward(self, ids, numbers):
        x = first = torch.cat([self.embedded(ids).flatten(1), numbers], -1)
        for cross in self.cross:
            x = first * cross(x) + x
        return self.head(torch.cat([x, self.deep(first)], -1)).sigmoid()


class Interactions(Fields):
    """Lian et al., xDeepFM, 2018: outer products of fields, compressed."""

    def __init__(self, maps=32):
        super().__init__()
        self.maps = nn.ModuleList(nn.Conv1d(26 * n, maps, 1) for n in (26, maps))
        self.head = nn.Linear(2 * maps, 1)

    def forward(self, ids, numbers):
        x = first = self.embedded(ids)
        sums = []
        for layer in self.maps:
            x = layer((x.unsqueeze(2) * first.unsqueeze(1)).flatten(1, 2)).relu()
            sums.append(x.sum(-1))
        return self.head(torch.cat(sums, -1)).sigmoid() + numbers[:, :1]


class AutoInt(Fields):
    """Song et al., AutoInt, 2019."""

    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.ModuleList(Attention(16, 2) for _ in range(2)), nn.Linear(26 * 16, 1)

    def forward(self, ids, numbers):
        x = self.embedded(ids)
        for layer in self.layers:
            x = (x + layer(x)).relu()
        return self.head(x.flatten(1)).sigmoid() + numbers[:, :1]


class Interest(nn.Module):
    """Zhou et al., Deep Interest Network, 2018: a history of 50."""

    def __init__(self):
        super().__init__()
        self.items, self.weigh, self.head = (
            nn.Embedding(5000, 32),
            dense(128, 64, 16, 1, act=nn.Sigmoid),
            dense(64, 80, 40, 1, act=nn.PReLU),
        )

    def forward(self, item, history):
        one, many = self.items(item), self.items(history)
        same = one.unsqueeze(1).expand_as(many)
        w = self.weigh(torch.cat([same, many, same - many, same * many], -1))
        return self.head(torch.cat([one, (w * many).sum(1)], -1)).sigmoid()


class Egnn(nn.Module):
    """Satorras et al., 2021: all pairs of 24 atoms."""

    def __init__(self, width=64):
        super().__init__()
        self.edge, self.node = dense(2 * width + 1, width, width, act=nn.SiLU, last=True), dense(
            2 * width, width, width, act=nn.SiLU
        )
        self.move, self.embed = dense(width, width, 1, act=nn.SiLU), nn.Linear(11, width)

    def forward(self, features, places):
        h = self.embed(features)
        for _ in range(3):
            n = h.shape[0]
            apart = places.unsqueeze(1) - places.unsqueeze(0)
            distance = apart.square().sum(-1, keepdim=True)
            pairs = torch.cat([h.unsqueeze(1).expand(n, n, -1), h.unsqueeze(0).expand(n, n, -1), distance], -1)
            m = self.edge(pairs)
            places = places + (apart / (distance.sqrt() + 1) * self.move(m)).mean(1)
            h = h + self.node(torch.cat([h, m.sum(1)], -1))
        return h, places


class Triangles(nn.Module):
    """Jumper et al., AlphaFold, 2021: the multiplicative update of pairs, and the mean of outer products."""

    def __init__(self, width=32):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.a, self.b, self.ga, self.gb, self.g, self.out = (nn.Linear(width, width) for _ in range(6))
        self.left, self.right, self.outer = nn.Linear(width, 8), nn.Linear(width, 8), nn.Linear(64, width)

    def forward(self, z, m):
        y = self.norms[2](m)
        outer = torch.einsum("sic,sjd->ijcd", self.left(y), self.right(y)).flatten(2) / m.shape[0]
        z = z + self.outer(outer)
        x = self.norms[0](z)
        a, b = self.a(x) * self.ga(x).sigmoid(), self.b(x) * self.gb(x).sigmoid()
        return z + self.g(x).sigmoid() * self.out(self.norms[1](torch.einsum("ikc,jkc->ijc", a, b)))


class Kan(nn.Module):
    """Liu et al., Kolmogorov-Arnold networks, 2024: splines of degree 1 over a grid of 8."""

    def __init__(self, sizes=(32, 64, 10)):
        super().__init__()
        self.grid = nn.Buffer(torch.linspace(-2, 2, 8))
        self.base = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:]))
        self.spline = nn.ModuleList(nn.Linear(8 * i, o, bias=False) for i, o in zip(sizes, sizes[1:]))

    def forward(self, x):
        for base, spline in zip(self.base, self.spline):
            bumps = (1 - (x.unsqueeze(-1) - self.grid).abs() * 1.75).relu()
            x = base(F.silu(x)) + spline(bumps.flatten(1))
        return x


FIELDS = (ids(1000, 32, 26), torch.rand(32, 13))
NETWORKS = {
    "patch_tst": (PatchTst, (torch.randn(1, 336, 7),)),
    "dlinear": (DLinear, (torch.randn(1, 336, 7),)),
    "dgcnn": (Dgcnn, (torch.randn(1, 3, 256),)),
    "nerf": (Nerf, (torch.randn(1024, 3),)),
    "siren": (Siren, (torch.randn(1024, 2),)),
    "linear_attention": (Linear, tokens(256, 128)),
    "perceiver": (Perceiver, tokens(1024, 35)),
    "rwkv": (Rwkv, tuple(torch.rand(1, 256) for _ in range(4))),
    "x_vector": (XVector, (torch.randn(1, 24, 200),)),
    "rn_noise": (NoiseGru, tuple(torch.randn(1, n) for n in (42, 24, 48, 96))),
    "deep_speech": (DeepSpeech, (torch.randn(1, 1, 161, 100),)),
    "audio_codec": (codec, (torch.randn(1, 1, 8192),)),
    "tagger": (Tagger, (ids(5000, 1, 30), ids(100, 1, 30, 12))),
    "translator": (Translator, (torch.randn(1, 128), torch.randn(1, 128), torch.randn(1, 40, 256))),
    "deep_fm": (DeepFm, FIELDS),
    "cross_net": (CrossNet, FIELDS),
    "x_deep_fm": (Interactions, FIELDS),
    "auto_int": (AutoInt, FIELDS),
    "interest": (Interest, (ids(5000, 16), ids(5000, 16, 50))),
    "egnn": (Egnn, (torch.randn(24, 11), torch.randn(24, 3))),
    "triangles": (Triangles, (torch.randn(48, 48, 32), torch.randn(16, 48, 32))),
    "kan": (Kan, (torch.randn(64, 32),)),
}
