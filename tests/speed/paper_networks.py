"""Networks of papers for images, volumes, sounds, texts and tables: NETWORKS, by name what makes one and its inputs."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def image(channels, *sizes, batch=1):
    return [torch.zeros(batch, channels, *sizes)]


def conv(i, o, k=3, s=1, act=nn.ReLU, groups=1, norm=True, dilation=1):
    layers = [nn.Conv2d(i, o, k, s, dilation * (k // 2), groups=groups, dilation=dilation)]
    return layers + ([nn.BatchNorm2d(o)] if norm else []) + ([act()] if act else [])


class Residual(nn.Module):
    """x + body(x), or shortcut(x) + body(x)."""

    def __init__(self, *body, shortcut=None, act=None):
        super().__init__()
        self.body, self.shortcut = nn.Sequential(*body), shortcut or nn.Identity()
        self.act = act or nn.Identity()

    def forward(self, x):
        return self.act(self.shortcut(x) + self.body(x))


class VNet(nn.Module):
    """Milletari et al., V-Net, 2016; two levels."""

    def __init__(self):
        super().__init__()

        def unit(i, o, n):
            return [layer for j in range(n) for layer in (nn.Conv3d(i if j == 0 else o, o, 5, padding=2), nn.PReLU(o))]

        self.first = nn.Conv3d(1, 8, 5, padding=2)
        self.down1, self.body1 = nn.Sequential(nn.Conv3d(8, 16, 2, 2), nn.PReLU(16)), Residual(*unit(16, 16, 2))
        self.down2, self.body2 = nn.Sequential(nn.Conv3d(16, 32, 2, 2), nn.PReLU(32)), Residual(*unit(32, 32, 2))
        self.up1, self.up2 = nn.ConvTranspose3d(32, 16, 2, 2), nn.ConvTranspose3d(16, 8, 2, 2)
        self.join1, self.join2 = nn.Sequential(*unit(32, 32, 1)), nn.Sequential(*unit(16, 16, 1))
        self.mid, self.last = nn.Conv3d(32, 16, 1), nn.Conv3d(16, 2, 1)

    def forward(self, x):
        a = self.first(x)
        b = self.body1(self.down1(a))
        c = self.body2(self.down2(b))
        b = self.mid(self.join1(torch.cat([self.up1(c), b], 1)))
        return self.last(self.join2(torch.cat([self.up2(b), a], 1))).softmax(1)


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


class Pix2Pix(nn.Module):
    """Isola et al., Image-to-Image Translation, 2017; the U-Net with five levels and half the channels."""

    def __init__(self, widths=(32, 64, 128, 256, 256)):
        super().__init__()
        down = lambda i, o: nn.Sequential(nn.LeakyReLU(0.2), nn.Conv2d(i, o, 4, 2, 1), nn.BatchNorm2d(o))
        up = lambda i, o: nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(i, o, 4, 2, 1), nn.BatchNorm2d(o))
        self.first = nn.Conv2d(3, widths[0], 4, 2, 1)
        self.down = nn.ModuleList(down(i, o) for i, o in zip(widths, widths[1:]))
        ups = list(zip(widths[:0:-1], widths[-2::-1]))
        self.up = nn.ModuleList(up(i * (1 if n == 0 else 2), o) for n, (i, o) in enumerate(ups))
        self.last = nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(2 * widths[0], 3, 4, 2, 1), nn.Tanh())

    def forward(self, x):
        levels = [self.first(x)]
        for down in self.down:
            levels.append(down(levels[-1]))
        x = levels.pop()
        for up in self.up:
            x = torch.cat([up(x), levels.pop()], 1)
        return self.last(x)


class X3DBlock(nn.Module):
    """Feichtenhofer, X3D, 2020: expansion, depthwise in space and time, squeeze and excitation, projection."""

    def __init__(self, i, o, stride=1):
        super().__init__()
        m = int(2.25 * i)
        self.expand = nn.Sequential(nn.Conv3d(i, m, 1), nn.BatchNorm3d(m), nn.ReLU())
        self.depth = nn.Sequential(nn.Conv3d(m, m, 3, (1, stride, stride), 1, groups=m), nn.BatchNorm3d(m))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool3d(1), nn.Conv3d(m, 8, 1), nn.ReLU(), nn.Conv3d(8, m, 1), nn.Sigmoid())
        self.project = nn.Sequential(nn.Conv3d(m, o, 1), nn.BatchNorm3d(o))
        self.same = stride == 1 and i == o

    def forward(self, x):
        y = self.depth(self.expand(x))
        y = self.project(F.silu(y * self.gate(y)))
        return F.relu(x + y) if self.same else F.relu(y)


def x3d():
    stem = [nn.Conv3d(3, 24, (1, 3, 3), (1, 2, 2), (0, 1, 1)), nn.Conv3d(24, 24, (5, 1, 1), padding=(2, 0, 0), groups=24)]
    blocks = [X3DBlock(24, 24, 2), X3DBlock(24, 24), X3DBlock(24, 48, 2), X3DBlock(48, 48), X3DBlock(48, 96, 2)]
    return nn.Sequential(*stem, nn.BatchNorm3d(24), nn.ReLU(), *blocks, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(96, 40))


class NasNetCell(nn.Module):
    """Zoph et al., Learning Transferable Architectures, 2017: a normal cell."""

    def __init__(self, c):
        super().__init__()

        def separable(k):
            half = lambda: [nn.ReLU(), nn.Conv2d(c, c, k, padding=k // 2, groups=c), nn.Conv2d(c, c, 1), nn.BatchNorm2d(c)]
            return nn.Sequential(*half(), *half())

        self.left = nn.ModuleList([separable(5), separable(5), separable(3)])
        self.right = nn.ModuleList([separable(3), separable(3)])
        self.pool = nn.AvgPool2d(3, 1, 1)
        self.squeeze = nn.Sequential(nn.ReLU(), nn.Conv2d(6 * c, c, 1), nn.BatchNorm2d(c))

    def forward(self, x, last):
        a = self.left[0](x) + self.right[0](last)
        b = self.left[1](last) + self.right[1](last)
        parts = [last, a, b, self.pool(x) + last, self.pool(last) + self.pool(last), self.left[2](x) + x]
        return self.squeeze(torch.cat(parts, 1))


class NasNet(nn.Module):
    def __init__(self, c=44, cells=3):
        super().__init__()
        self.stem = nn.Sequential(*conv(3, c, 3, 2, act=None))
        self.cells = nn.ModuleList(NasNetCell(c) for _ in range(cells))

    def forward(self, x):
        last = x = self.stem(x)
        for cell in self.cells:
            x, last = cell(x, last), x
        return x


def ds_cnn():
    """Zhang et al., Hello Edge, 2017: keywords, as in MLPerf Tiny."""
    blocks = [layer for _ in range(4) for layer in conv(64, 64, groups=64) + conv(64, 64, 1)]
    return nn.Sequential(*conv(1, 64, 5, 2), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12), nn.Softmax(1))


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


def srresnet():
    """Ledig et al., SRGAN, 2017: the generator, four blocks, a quarter of the channels."""
    blocks = [Residual(*conv(16, 16, act=nn.PReLU), *conv(16, 16, act=None)) for _ in range(4)]
    up = lambda: [nn.Conv2d(16, 64, 3, padding=1), nn.PixelShuffle(2), nn.PReLU()]
    return nn.Sequential(nn.Conv2d(3, 16, 9, padding=4), nn.PReLU(), *blocks, *up(), *up(), nn.Conv2d(16, 3, 9, padding=4))


def rrdb():
    """Wang et al., ESRGAN, 2018: two dense blocks."""

    class Dense(nn.Module):
        def __init__(self, c=32, g=16):
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(c + i * g, g if i < 4 else c, 3, padding=1) for i in range(5))

        def forward(self, x):
            parts = [x]
            for layer in self.layers[:-1]:
                parts.append(F.leaky_relu(layer(torch.cat(parts, 1)), 0.2))
            return x + 0.2 * self.layers[-1](torch.cat(parts, 1))

    up = [nn.Upsample(scale_factor=2), nn.Conv2d(32, 32, 3, padding=1), nn.LeakyReLU(0.2)]
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), Dense(), Dense(), *up, nn.Conv2d(32, 3, 3, padding=1))


class Aspp(nn.Module):
    """Chen et al., DeepLabv3, 2017: the pyramid of dilated convolutions."""

    def __init__(self, i=128, o=64):
        super().__init__()
        self.branches = nn.ModuleList([nn.Sequential(*conv(i, o, 1))] + [nn.Sequential(*conv(i, o, 3, dilation=d)) for d in (6, 12, 18)])
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(i, o, 1), nn.ReLU())
        self.last = nn.Sequential(*conv(5 * o, o, 1), nn.Conv2d(o, 21, 1))

    def forward(self, x):
        parts = [branch(x) for branch in self.branches]
        parts.append(F.interpolate(self.pool(x), size=x.shape[2:], mode="bilinear"))
        return F.interpolate(self.last(torch.cat(parts, 1)), scale_factor=8, mode="bilinear")


class PyramidPooling(nn.Module):
    """Zhao et al., PSPNet, 2017: the pooling pyramid."""

    def __init__(self, c=128):
        super().__init__()
        self.levels = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(n), *conv(c, c // 4, 1)) for n in (1, 2, 3, 6))
        self.last = nn.Sequential(*conv(2 * c, 64), nn.Conv2d(64, 19, 1))

    def forward(self, x):
        up = [F.interpolate(level(x), size=x.shape[2:], mode="bilinear") for level in self.levels]
        return self.last(torch.cat([x, *up], 1))


class Hourglass(nn.Module):
    """Newell et al., Stacked Hourglass Networks, 2016: one of them, three levels."""

    def __init__(self, c=64, levels=3):
        super().__init__()
        half = lambda: Residual(nn.BatchNorm2d(c), nn.ReLU(), *conv(c, c // 2, 1), *conv(c // 2, c // 2), nn.Conv2d(c // 2, c, 1))
        self.skip = nn.ModuleList(half() for _ in range(levels))
        self.down, self.up = nn.ModuleList(half() for _ in range(levels)), nn.ModuleList(half() for _ in range(levels))
        self.stem, self.last = nn.Sequential(*conv(3, c, 7, 2), nn.MaxPool2d(2)), nn.Conv2d(c, 16, 1)

    def forward(self, x):
        x, skipped = self.stem(x), []
        for skip, down in zip(self.skip, self.down):
            skipped.append(skip(x))
            x = down(F.max_pool2d(x, 2))
        for up in self.up:
            x = F.interpolate(up(x), scale_factor=2) + skipped.pop()
        return self.last(x)


class Dlrm(nn.Module):
    """Naumov et al., Deep Learning Recommendation Model, 2019; 16 rows."""

    def __init__(self, tables=8, width=16):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(1000, width) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 64), nn.ReLU(), nn.Linear(64, 1), nn.Sigmoid())
        self.register_buffer("places", torch.tensor([i * (tables + 1) + j for i in range(tables + 1) for j in range(i)]))

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
        self.depth = nn.Sequential(nn.Conv1d(d, d, 31, padding=15, groups=d), nn.BatchNorm1d(d), nn.SiLU(), nn.Conv1d(d, d, 1))
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
    return nn.Sequential(*first, block(128, 33), block(128, 39), block(128, 51), nn.Conv1d(128, 29, 1), nn.LogSoftmax(1))


class Tdnn(nn.Module):
    """Desplanques et al., ECAPA-TDNN, 2020: one block, attentive statistics."""

    def __init__(self, c=128, scale=8):
        super().__init__()
        self.first = nn.Sequential(nn.Conv1d(80, c, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(c))
        self.a, self.b = nn.Conv1d(c, c, 1), nn.Conv1d(c, c, 1)
        self.parts = nn.ModuleList(nn.Conv1d(c // scale, c // scale, 3, padding=2, dilation=2) for _ in range(scale - 1))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Conv1d(c, 32, 1), nn.ReLU(), nn.Conv1d(32, c, 1), nn.Sigmoid())
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
    return nn.Sequential(nn.Conv1d(80, 64, 7, padding=3), *up(64, 16), *up(32, 8), nn.LeakyReLU(), nn.Conv1d(16, 1, 7, padding=3), nn.Tanh())


class BlazeFace(nn.Module):
    """Bazarevsky et al., BlazeFace, 2019."""

    def __init__(self):
        super().__init__()

        class Block(nn.Module):
            def __init__(self, i, o, s=1):
                super().__init__()
                self.body = nn.Sequential(nn.Conv2d(i, i, 5, s, 2, groups=i), nn.Conv2d(i, o, 1))
                self.s, self.more = s, o - i

            def forward(self, x):
                short = F.max_pool2d(x, 2) if self.s == 2 else x
                return F.relu(self.body(x) + F.pad(short, (0, 0, 0, 0, 0, self.more)))

        a = [Block(24, 24), Block(24, 28), Block(28, 32, 2), Block(32, 36), Block(36, 42), Block(42, 48, 2), Block(48, 56)]
        self.a = nn.Sequential(nn.Conv2d(3, 24, 5, 2, 2), nn.ReLU(), *a, Block(56, 64), Block(64, 72), Block(72, 88))
        self.b = nn.Sequential(Block(88, 96, 2), Block(96, 96), Block(96, 96))
        self.heads = nn.ModuleList([nn.Conv2d(88, 2, 1), nn.Conv2d(88, 32, 1), nn.Conv2d(96, 6, 1), nn.Conv2d(96, 96, 1)])

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        flat = lambda y, n: y.permute(0, 2, 3, 1).reshape(1, -1, n)
        scores = torch.cat([flat(self.heads[0](a), 1), flat(self.heads[2](b), 1)], 1)
        return scores.sigmoid(), torch.cat([flat(self.heads[1](a), 16), flat(self.heads[3](b), 16)], 1)


def mobilefacenet():
    """Chen et al., MobileFaceNets, 2018; half the blocks."""

    def block(i, o, s, m):
        act = lambda: nn.PReLU(m)
        body = conv(i, m, 1, act=act) + conv(m, m, 3, s, act=act, groups=m) + conv(m, o, 1, act=None)
        return Residual(*body) if s == 1 and i == o else nn.Sequential(*body)

    act = lambda: nn.PReLU(64)
    blocks = [block(64, 64, 2, 128), block(64, 64, 1, 128), block(64, 64, 1, 128), block(64, 128, 2, 256), block(128, 128, 1, 256)]
    last = [block(128, 128, 2, 512), *conv(128, 512, 1, act=lambda: nn.PReLU(512)), nn.Conv2d(512, 512, 7, groups=512)]
    return nn.Sequential(*conv(3, 64, 3, 2, act=act), *conv(64, 64, 3, act=act, groups=64), *blocks, *last, nn.Flatten(), nn.Linear(512, 128))


def p_net():
    """Zhang et al., MTCNN, 2016: the first network."""
    layers = [nn.Conv2d(3, 10, 3), nn.PReLU(10), nn.MaxPool2d(2, ceil_mode=True), nn.Conv2d(10, 16, 3), nn.PReLU(16)]
    return nn.Sequential(*layers, nn.Conv2d(16, 32, 3), nn.PReLU(32), nn.Conv2d(32, 6, 1))


class ENet(nn.Module):
    """Paszke et al., ENet, 2016: its stem and bottlenecks, without the unpooling."""

    def __init__(self):
        super().__init__()
        self.stem, c = nn.Conv2d(3, 13, 3, 2, 1), 16

        def bottleneck(layer):
            body = [nn.Conv2d(c, 4, 1), nn.BatchNorm2d(4), nn.PReLU(), *layer, nn.BatchNorm2d(4), nn.PReLU(), nn.Conv2d(4, c, 1)]
            return Residual(*body, act=nn.PReLU())

        plain = lambda d: [nn.Conv2d(4, 4, 3, padding=d, dilation=d)]
        long = [nn.Conv2d(4, 4, (5, 1), padding=(2, 0)), nn.Conv2d(4, 4, (1, 5), padding=(0, 2))]
        self.body = nn.Sequential(*(bottleneck(layer) for layer in (plain(1), plain(2), long, plain(4), plain(8))))
        self.last = nn.ConvTranspose2d(c, 12, 2, 2)

    def forward(self, x):
        x = torch.cat([self.stem(x), F.max_pool2d(x, 2)], 1)
        return self.last(self.body(x))


def erfnet():
    """Romera et al., ERFNet, 2017: two of its blocks at a quarter of the size."""

    def block(c, d):
        line = lambda d: [nn.Conv2d(c, c, (3, 1), padding=(d, 0), dilation=(d, 1)), nn.ReLU(), nn.Conv2d(c, c, (1, 3), padding=(0, d), dilation=(1, d)), nn.BatchNorm2d(c)]
        return Residual(*line(1), nn.ReLU(), *line(d), act=nn.ReLU())

    up = [nn.ConvTranspose2d(64, 16, 3, 2, 1, output_padding=1), nn.BatchNorm2d(16), nn.ReLU(), block(16, 1)]
    return nn.Sequential(*conv(3, 16, 3, 2), *conv(16, 64, 3, 2), block(64, 2), block(64, 4), *up, nn.ConvTranspose2d(16, 20, 2, 2))


class Pillars(nn.Module):
    """Lang et al., PointPillars, 2019: the network of the pillars, and the first block of the backbone."""

    def __init__(self):
        super().__init__()
        self.points = nn.Sequential(nn.Linear(9, 64), nn.ReLU())
        self.body = nn.Sequential(*conv(64, 64, 3, 2), *conv(64, 64), *conv(64, 64), nn.ConvTranspose2d(64, 32, 2, 2), nn.ReLU())
        self.register_buffer("places", torch.randperm(64 * 64)[:400])

    def forward(self, x):
        pillars = self.points(x).max(1).values
        canvas = torch.zeros(64 * 64, 64).index_copy(0, self.places, pillars)
        return self.body(canvas.t().reshape(1, 64, 64, 64))


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
    return nn.Sequential(*unit(1, 64, 512, 4), *unit(64, 16, 64, 1), *unit(16, 16, 64, 1), *unit(16, 32, 64, 1), nn.Flatten(), nn.Linear(512, 360), nn.Sigmoid())


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


class Capsules(nn.Module):
    """Sabour et al., Dynamic Routing Between Capsules, 2017; a quarter of the capsules, two rounds."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 64, 9), nn.Conv2d(64, 64, 9, 2)
        self.w = nn.Parameter(torch.randn(1, 10, 288, 16, 8) * 0.1)

    @staticmethod
    def squash(x):
        n = (x * x).sum(-1, keepdim=True)
        return x * (n / (1 + n) / (n + 1e-7).sqrt())

    def forward(self, x):
        x = self.squash(self.second(self.first(x).relu()).view(1, 8, 8 * 36).transpose(1, 2))
        votes = (self.w @ x[:, None, :, :, None])[..., 0]
        logits = torch.zeros(1, 10, 288, 1)
        for i in range(2):
            v = self.squash((logits.softmax(1) * votes).sum(2, keepdim=True))
            logits = logits + (votes * v).sum(-1, keepdim=True)
        return v[:, :, 0].norm(dim=-1)


def shufflenet_v1():
    """Zhang et al., ShuffleNet, 2017: a stage with three groups."""

    class Unit(nn.Module):
        def __init__(self, c=240, g=3):
            super().__init__()
            m = c // 4
            self.a, self.g = nn.Sequential(*conv(c, m, 1, groups=g)), g
            self.b = nn.Sequential(*conv(m, m, 3, groups=m, act=None), *conv(m, c, 1, groups=g, act=None))

        def forward(self, x):
            y = self.a(x)
            b, c, h, w = y.shape
            y = y.view(b, self.g, c // self.g, h, w).transpose(1, 2).reshape(b, c, h, w)
            return F.relu(x + self.b(y))

    return nn.Sequential(Unit(), Unit(), Unit())


class Slow(nn.Module):
    """Carreira and Zisserman, I3D, 2017: a stem and an Inception block in three dimensions."""

    def __init__(self):
        super().__init__()
        unit = lambda i, o, k: nn.Sequential(nn.Conv3d(i, o, k, padding=k // 2), nn.BatchNorm3d(o), nn.ReLU())
        self.stem = nn.Sequential(nn.Conv3d(3, 32, 7, 2, 3), nn.ReLU(), nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)))
        self.a, self.b = unit(32, 16, 1), nn.Sequential(unit(32, 24, 1), unit(24, 32, 3))
        self.c, self.d = nn.Sequential(unit(32, 8, 1), unit(8, 16, 3)), nn.Sequential(nn.MaxPool3d(3, 1, 1), unit(32, 16, 1))

    def forward(self, x):
        x = self.stem(x)
        return torch.cat([self.a(x), self.b(x), self.c(x), self.d(x)], 1).mean((2, 3, 4))


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
    "vnet": (VNet, image(1, 32, 32, 32)),
    "eegnet": (eegnet, image(1, 64, 128)),
    "tabnet": (TabNet, [torch.zeros(16, 64)]),
    "fnet": (FNet, [torch.zeros(1, 64, 128)]),
    "pix2pix": (Pix2Pix, image(3, 128, 128)),
    "x3d": (x3d, image(3, 8, 96, 96)),
    "nasnet": (NasNet, image(3, 64, 64)),
    "ds_cnn": (ds_cnn, image(1, 49, 10)),
    "anomalies": (anomalies, [torch.zeros(1, 640)]),
    "anomalies_b32": (anomalies, [torch.zeros(32, 640)]),
    "resnet8": (resnet8, image(3, 32, 32)),
    "wake_words": (wake_words, image(3, 96, 96)),
    "srresnet": (srresnet, image(3, 48, 48)),
    "rrdb": (rrdb, image(3, 48, 48)),
    "aspp": (Aspp, image(128, 32, 32)),
    "pyramid": (PyramidPooling, image(128, 30, 30)),
    "hourglass": (Hourglass, image(3, 128, 128)),
    "dlrm": (Dlrm, [torch.zeros(16, 13), torch.zeros(16, 8, dtype=torch.long)]),
    "nbeats": (NBeats, [torch.zeros(8, 60)]),
    "conformer": (Conformer, [torch.zeros(1, 100, 144)]),
    "quartznet": (quartznet, image(64, 200)),
    "ecapa": (Tdnn, image(80, 200)),
    "hifigan": (hifigan, image(80, 50)),
    "blazeface": (BlazeFace, image(3, 128, 128)),
    "mobilefacenet": (mobilefacenet, image(3, 112, 112)),
    "p_net": (p_net, image(3, 96, 128)),
    "enet": (ENet, image(3, 128, 256)),
    "erfnet": (erfnet, image(3, 128, 128)),
    "pillars": (Pillars, [torch.zeros(400, 32, 9)]),
    "convlstm": (ConvLstm, [torch.zeros(1, 4, 1, 32, 32)]),
    "gat": (GraphAttention, [torch.zeros(128, 64), torch.zeros(128, 128)]),
    "yamnet": (yamnet, image(1, 96, 64)),
    "crepe": (crepe, image(1, 1024)),
    "demucs": (Demucs, image(2, 4096)),
    "capsules": (Capsules, image(1, 28, 28)),
    "shufflenet_v1": (shufflenet_v1, image(240, 28, 28)),
    "i3d": (Slow, image(3, 8, 64, 64)),
    "sasrec": (Sasrec, [torch.zeros(1, 50, dtype=torch.long)]),
}
