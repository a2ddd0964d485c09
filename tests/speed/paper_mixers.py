"""Networks of papers that mix places and channels, made smaller: sounds, tokens, points, pictures: NETWORKS, by name what makes
one and its inputs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from paper_codecs import Residual
from paper_images import conv, image
from paper_layers import Attention, Layer, dense, ids, tokens


class WaveNet(nn.Module):
    """Van den Oord et al., 2016: gated causal convolutions."""

    def __init__(self, n=48, count=8):
        super().__init__()
        self.first = nn.Conv1d(1, n, 1)
        self.gates = nn.ModuleList(nn.Conv1d(n, 2 * n, 2, dilation=2**i) for i in range(count))
        self.mix = nn.ModuleList(nn.Conv1d(n, n, 1) for _ in range(count))
        self.skip = nn.ModuleList(nn.Conv1d(n, 64, 1) for _ in range(count))
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(64, 64, 1), nn.ReLU(), nn.Conv1d(64, 256, 1))

    def forward(self, x):
        x, all_skips = self.first(x), 0
        for i, (gate, mix, skip) in enumerate(zip(self.gates, self.mix, self.skip)):
            a, b = gate(F.pad(x, (2**i, 0))).chunk(2, 1)
            y = torch.tanh(a) * torch.sigmoid(b)
            all_skips, x = all_skips + skip(y), x + mix(y)
        return self.last(all_skips)


class Temporal(nn.Module):
    """Bai et al., TCN, 2018."""

    def __init__(self, i, o, gap):
        super().__init__()
        self.gap, self.a, self.b = 2 * gap, nn.Conv1d(i, o, 3, dilation=gap), nn.Conv1d(o, o, 3, dilation=gap)
        self.short = nn.Conv1d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x):
        y = F.relu(self.a(F.pad(x, (self.gap, 0))))
        y = F.relu(self.b(F.pad(y, (self.gap, 0))))
        return F.relu(y + self.short(x))


class Wav2Vec(nn.Module):
    """Baevski et al., 2020: the features of sounds."""

    def __init__(self, n=128):
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(1, n, 10, 5, bias=False), nn.GroupNorm(n, n), nn.GELU())
        strided = [part for taps in (3, 3, 3, 3, 2, 2) for part in (nn.Conv1d(n, n, taps, 2, bias=False), nn.GELU())]
        self.rest, self.norm = nn.Sequential(*strided), nn.LayerNorm(n)
        self.places = nn.Conv1d(n, n, 32, padding=16, groups=16)

    def forward(self, x):
        y = self.norm(self.rest(self.first(x)).transpose(1, 2))
        return y + F.gelu(self.places(y.transpose(1, 2))[..., :-1]).transpose(1, 2)


class Ghost(nn.Module):
    """Han et al., GhostNet, 2020: half of the channels from cheap filters."""

    def __init__(self, i, o, act=True):
        super().__init__()
        self.first = nn.Sequential(*conv(i, o // 2, 1)[: 3 if act else 2])
        cheap = [nn.Conv2d(o // 2, o // 2, 3, padding=1, groups=o // 2, bias=False), nn.BatchNorm2d(o // 2)]
        self.cheap = nn.Sequential(*cheap, *([nn.ReLU()] if act else []))

    def forward(self, x):
        y = self.first(x)
        return torch.cat([y, self.cheap(y)], 1)


def ghost_net():
    stages = [*conv(3, 16, 3, 2)]
    for i, o, s in ((16, 24, 2), (24, 40, 2), (40, 80, 2)):
        stages += [
            Ghost(i, 4 * i),
            nn.Conv2d(4 * i, 4 * i, 3, s, 1, groups=4 * i),
            nn.BatchNorm2d(4 * i),
            Ghost(4 * i, o, False),
        ]
        stages += [Residual(Ghost(o, 3 * o), Ghost(3 * o, o, False))]
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(80, 100))


def conv_mixer(n=96, depth=4):
    """Trockman and Kolter, 2022."""
    layers = [nn.Conv2d(3, n, 7, 7), nn.GELU(), nn.BatchNorm2d(n)]
    for _ in range(depth):
        layers.append(Residual(nn.Conv2d(n, n, 9, padding=4, groups=n), nn.GELU(), nn.BatchNorm2d(n)))
        layers += [nn.Conv2d(n, n, 1), nn.GELU(), nn.BatchNorm2d(n)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, 100))


class Mixed(nn.Module):
    """Tolstikhin et al., MLP-Mixer, 2021; or Liu et al., gMLP, 2021."""

    def __init__(self, count, n, gated=False):
        super().__init__()
        self.gated, self.norms = gated, nn.ModuleList(nn.LayerNorm(n) for _ in range(2))
        self.over = nn.Linear(count, count) if gated else dense(count, 2 * count, count, act=nn.GELU)
        self.first, self.last = nn.Linear(n, 4 * n), nn.Linear(2 * n if gated else 4 * n, n)
        self.inner = nn.LayerNorm(2 * n)

    def forward(self, x):
        if not self.gated:
            x = x + self.over(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
            return x + self.last(F.gelu(self.first(self.norms[1](x))))
        u, v = F.gelu(self.first(self.norms[0](x))).chunk(2, -1)
        return x + self.last(u * self.over(self.inner(v).transpose(1, 2)).transpose(1, 2))


class TasNet(nn.Module):
    """Luo and Mesgarani, Conv-TasNet, 2019: two speakers."""

    def __init__(self, n=128, b=64, h=128):
        super().__init__()
        self.coded, self.first = nn.Conv1d(1, n, 16, 8, bias=False), nn.Sequential(
            nn.GroupNorm(1, n), nn.Conv1d(n, b, 1)
        )
        self.blocks = nn.ModuleList()
        for i in range(6):
            depthwise = nn.Conv1d(h, h, 3, padding=2**i, dilation=2**i, groups=h)
            layers = [nn.Conv1d(b, h, 1), nn.PReLU(), nn.GroupNorm(1, h), depthwise, nn.PReLU(), nn.GroupNorm(1, h)]
            self.blocks.append(Residual(*layers, nn.Conv1d(h, b, 1)))
        self.masks, self.sound = nn.Conv1d(b, 2 * n, 1), nn.ConvTranspose1d(n, 1, 16, 8, bias=False)

    def forward(self, x):
        y = F.relu(self.coded(x))
        z = self.first(y)
        for block in self.blocks:
            z = block(z)
        masked = self.masks(z).sigmoid().unflatten(1, (2, -1)) * y.unsqueeze(1)
        return self.sound(masked.flatten(0, 1))


class FastSpeech(nn.Module):
    """Ren et al., 2021: letters to a spectrum, all lengths alike."""

    def __init__(self, n=96):
        super().__init__()
        self.letters, self.encoder, self.decoder = nn.Embedding(80, n), *(
            nn.ModuleList(self.block(n) for _ in range(2)) for _ in "ab"
        )
        self.pitch = nn.Sequential(
            nn.Conv1d(n, n, 3, padding=1), nn.ReLU(), nn.Conv1d(n, n, 3, padding=1), nn.ReLU(), nn.Conv1d(n, 1, 1)
        )
        self.spectrum = nn.Linear(n, 80)

    @staticmethod
    def block(n):
        wide = nn.Sequential(nn.Conv1d(n, 4 * n, 9, padding=4), nn.ReLU(), nn.Conv1d(4 * n, n, 1))
        return nn.ModuleDict({"attention": Attention(n, 2), "wide": wide, "a": nn.LayerNorm(n), "b": nn.LayerNorm(n)})

    def run(self, blocks, x):
        for block in blocks:
            x = block["a"](x + block["attention"](x))
            x = block["b"](x + block["wide"](x.transpose(1, 2)).transpose(1, 2))
        return x

    def forward(self, letters):
        x = self.run(self.encoder, self.letters(letters))
        pitch = self.pitch(x.transpose(1, 2)).transpose(1, 2)
        x = (x + pitch).repeat_interleave(4, 1)
        return self.spectrum(self.run(self.decoder, x)), pitch


class PointNet(nn.Module):
    """Qi et al., 2017: features of points and of all."""

    def __init__(self):
        super().__init__()
        lift = lambda *n: nn.Sequential(
            *(p for i, o in zip(n, n[1:]) for p in (nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU()))
        )
        self.turn, self.turned = lift(3, 32, 64, 256), dense(256, 64, 9)
        self.a, self.b, self.parts = (
            lift(3, 64, 64),
            lift(64, 128, 512),
            nn.Sequential(lift(576, 128, 64), nn.Conv1d(64, 13, 1)),
        )

    def forward(self, x):
        turn = self.turned(self.turn(x).amax(-1)).reshape(-1, 3, 3) + torch.eye(3)
        a = self.a((x.transpose(1, 2) @ turn).transpose(1, 2))
        whole = self.b(a).amax(-1, keepdim=True)
        return self.parts(torch.cat([a, whole.expand(-1, -1, a.shape[-1])], 1))


class Retention(nn.Module):
    """Sun et al., RetNet, 2023: decays instead of a softmax."""

    def __init__(self, n=128, heads=4, count=64):
        super().__init__()
        self.heads, self.qkvg, self.out = heads, nn.Linear(n, 4 * n), nn.Linear(n, n)
        self.norm, self.each, self.wide = (
            nn.LayerNorm(n),
            nn.GroupNorm(heads, n),
            nn.Sequential(nn.LayerNorm(n), dense(n, 2 * n, n, act=nn.GELU)),
        )
        at = torch.arange(count)
        gap = (at[:, None] - at).float()
        rate = 1 - 2.0 ** (-5 - torch.arange(heads).float())
        self.register_buffer("decay", torch.where(gap >= 0, rate[:, None, None] ** gap.clamp(min=0), torch.zeros(())))

    def forward(self, x):
        q, k, v, g = self.qkvg(self.norm(x)).chunk(4, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        y = ((q @ k.transpose(-1, -2)) * self.decay) @ v
        y = self.each(y.transpose(1, 2).flatten(2).flatten(0, 1)).unflatten(0, (x.shape[0], -1))
        x = x + self.out(F.silu(g) * y)
        return x + self.wide(x)


class Experts(nn.Module):
    """Puigcerver et al., Soft MoE, 2024: eight experts of four slots."""

    def __init__(self, n=96, experts=8, slots=4):
        super().__init__()
        self.places = nn.Parameter(torch.randn(n, experts * slots) * 0.1)
        self.first, self.last = (nn.Parameter(torch.randn(experts, *size) * 0.1) for size in ((n, 2 * n), (2 * n, n)))
        self.norm, self.own = nn.LayerNorm(n), Layer(n)

    def forward(self, x):
        x = self.own(x)
        y = self.norm(x)
        scores = y @ self.places
        slots = (scores.softmax(1).transpose(1, 2) @ y).unflatten(1, (self.first.shape[0], -1))
        done = F.gelu(slots @ self.first) @ self.last
        return x + scores.softmax(2) @ done.flatten(1, 2)


class Signals(nn.Module):
    """Perslev et al., U-Time, 2019: a U-Net of signals."""

    def __init__(self, n=16):
        super().__init__()
        line = lambda i, o: nn.Sequential(nn.Conv1d(i, o, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(o))
        sizes = (n, 2 * n, 4 * n, 8 * n)
        self.down = nn.ModuleList(nn.Sequential(line(i, o), line(o, o)) for i, o in zip((1, *sizes), sizes))
        self.up = nn.ModuleList(line(3 * i, i) for i in sizes[-2::-1])
        self.last = nn.Sequential(nn.Tanh(), nn.Conv1d(n, 5, 1), nn.AvgPool1d(100))

    def forward(self, x):
        skips = []
        for down in self.down:
            skips.append(down(x))
            x = F.max_pool1d(skips[-1], 4)
        x = skips.pop()
        for up in self.up:
            x = up(torch.cat([skips.pop(), F.interpolate(x, scale_factor=4.0)], 1))
        return self.last(x)


class Fields(nn.Module):
    """Li et al., Fourier neural operator, 2021, as products with the waves."""

    def __init__(self, n=32, size=48, waves=8):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, n, 1), nn.Sequential(nn.Conv2d(n, 64, 1), nn.GELU(), nn.Conv2d(64, 1, 1))
        angles = 2 * torch.pi * torch.outer(torch.arange(size).float(), torch.arange(waves).float()) / size
        self.register_buffer("waves", torch.cat([angles.cos(), angles.sin()], 1) / size**0.5)
        self.mix = nn.ParameterList(nn.Parameter(torch.randn(n, n, 2 * waves, 2 * waves) * 0.05) for _ in range(2))
        self.short = nn.ModuleList(nn.Conv2d(n, n, 1) for _ in range(2))

    def forward(self, x):
        x = self.first(x)
        for mix, short in zip(self.mix, self.short):
            y = self.waves.t() @ (x @ self.waves)
            y = torch.einsum("bixy,ioxy->boxy", y, mix)
            x = F.gelu(self.waves @ (y @ self.waves.t()) + short(x))
        return self.last(x)


def rep_vgg():
    """Ding et al., 2021, for inference."""
    layers = [
        part
        for i, o, s in ((3, 32, 2), (32, 48, 2), (48, 48, 1), (48, 96, 2), (96, 96, 1), (96, 192, 2))
        for part in conv(i, o, 3, s)
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 100))


class Pooled(nn.Module):
    """Yu et al., PoolFormer, 2022."""

    def __init__(self, n):
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(1, n) for _ in range(2))
        self.pool, self.scales = nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.Parameter(torch.rand(2, n, 1, 1))
        self.wide = nn.Sequential(nn.Conv2d(n, 4 * n, 1), nn.GELU(), nn.Conv2d(4 * n, n, 1))

    def forward(self, x):
        y = self.norms[0](x)
        x = x + self.scales[0] * (self.pool(y) - y)
        return x + self.scales[1] * self.wide(self.norms[1](x))


def pool_former():
    layers = [
        nn.Conv2d(3, 32, 7, 4, 2),
        Pooled(32),
        nn.Conv2d(32, 64, 3, 2, 1),
        Pooled(64),
        nn.Conv2d(64, 128, 3, 2, 1),
        Pooled(128),
    ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100))


def mixers(*layers, pool=True):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.layers = nn.Conv2d(3, 96, 16, 16), nn.Sequential(*layers)
            self.norm, self.head = nn.LayerNorm(96), nn.Linear(96, 100)

        def forward(self, x):
            y = self.norm(self.layers(self.patches(x).flatten(2).transpose(1, 2)))
            return self.head(y.mean(1))

    return Net()


NETWORKS = {
    "wave_net": (WaveNet, (torch.randn(1, 1, 1024),)),
    "tcn": (
        lambda: nn.Sequential(Temporal(8, 40, 1), Temporal(40, 40, 2), Temporal(40, 40, 4)),
        (torch.randn(2, 8, 400),),
    ),
    "wav2vec": (Wav2Vec, (torch.randn(1, 1, 8000),)),
    "ghost_net": (ghost_net, image(3, 128, 128)),
    "conv_mixer": (conv_mixer, image(3, 112, 112)),
    "mlp_mixer": (lambda: mixers(*(Mixed(49, 96) for _ in range(3))), image(3, 112, 112)),
    "g_mlp": (lambda: mixers(*(Mixed(49, 96, True) for _ in range(3))), image(3, 112, 112)),
    "tas_net": (TasNet, (torch.randn(1, 1, 4000),)),
    "fast_speech": (FastSpeech, (ids(80, 1, 40),)),
    "point_net": (PointNet, (torch.randn(1, 3, 512),)),
    "ret_net": (lambda: nn.Sequential(Retention(), Retention()), tokens(64, 128)),
    "soft_moe": (lambda: nn.Sequential(Experts(), Experts()), tokens(64, 96)),
    "u_time": (Signals, (torch.randn(1, 1, 3200),)),
    "fourier_operator": (Fields, image(3, 48, 48)),
    "rep_vgg": (rep_vgg, image(3, 112, 112)),
    "pool_former": (pool_former, image(3, 112, 112)),
}
