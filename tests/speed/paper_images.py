"""Networks of papers for images and volumes: NETWORKS, by name what makes one and its inputs."""

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
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool3d(1), nn.Conv3d(m, 8, 1), nn.ReLU(), nn.Conv3d(8, m, 1), nn.Sigmoid()
        )
        self.project = nn.Sequential(nn.Conv3d(m, o, 1), nn.BatchNorm3d(o))
        self.same = stride == 1 and i == o

    def forward(self, x):
        y = self.depth(self.expand(x))
        y = self.project(F.silu(y * self.gate(y)))
        return F.relu(x + y) if self.same else F.relu(y)


def x3d():
    stem = [
        nn.Conv3d(3, 24, (1, 3, 3), (1, 2, 2), (0, 1, 1)),
        nn.Conv3d(24, 24, (5, 1, 1), padding=(2, 0, 0), groups=24),
    ]
    blocks = [X3DBlock(24, 24, 2), X3DBlock(24, 24), X3DBlock(24, 48, 2), X3DBlock(48, 48), X3DBlock(48, 96, 2)]
    return nn.Sequential(
        *stem, nn.BatchNorm3d(24), nn.ReLU(), *blocks, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(96, 40)
    )


class NasNetCell(nn.Module):
    """Zoph et al., Learning Transferable Architectures, 2017: a normal cell."""

    def __init__(self, c):
        super().__init__()

        def separable(k):
            half = lambda: [
                nn.ReLU(),
                nn.Conv2d(c, c, k, padding=k // 2, groups=c),
                nn.Conv2d(c, c, 1),
                nn.BatchNorm2d(c),
            ]
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


def srresnet():
    """Ledig et al., SRGAN, 2017: the generator, four blocks, a quarter of the channels."""
    blocks = [Residual(*conv(16, 16, act=nn.PReLU), *conv(16, 16, act=None)) for _ in range(4)]
    up = lambda: [nn.Conv2d(16, 64, 3, padding=1), nn.PixelShuffle(2), nn.PReLU()]
    return nn.Sequential(
        nn.Conv2d(3, 16, 9, padding=4), nn.PReLU(), *blocks, *up(), *up(), nn.Conv2d(16, 3, 9, padding=4)
    )


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
        self.branches = nn.ModuleList(
            [nn.Sequential(*conv(i, o, 1))] + [nn.Sequential(*conv(i, o, 3, dilation=d)) for d in (6, 12, 18)]
        )
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
        half = lambda: Residual(
            nn.BatchNorm2d(c), nn.ReLU(), *conv(c, c // 2, 1), *conv(c // 2, c // 2), nn.Conv2d(c // 2, c, 1)
        )
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

        a = [
            Block(24, 24),
            Block(24, 28),
            Block(28, 32, 2),
            Block(32, 36),
            Block(36, 42),
            Block(42, 48, 2),
            Block(48, 56),
        ]
        self.a = nn.Sequential(nn.Conv2d(3, 24, 5, 2, 2), nn.ReLU(), *a, Block(56, 64), Block(64, 72), Block(72, 88))
        self.b = nn.Sequential(Block(88, 96, 2), Block(96, 96), Block(96, 96))
        self.heads = nn.ModuleList(
            [nn.Conv2d(88, 2, 1), nn.Conv2d(88, 32, 1), nn.Conv2d(96, 6, 1), nn.Conv2d(96, 96, 1)]
        )

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
    blocks = [
        block(64, 64, 2, 128),
        block(64, 64, 1, 128),
        block(64, 64, 1, 128),
        block(64, 128, 2, 256),
        block(128, 128, 1, 256),
    ]
    last = [block(128, 128, 2, 512), *conv(128, 512, 1, act=lambda: nn.PReLU(512)), nn.Conv2d(512, 512, 7, groups=512)]
    return nn.Sequential(
        *conv(3, 64, 3, 2, act=act),
        *conv(64, 64, 3, act=act, groups=64),
        *blocks,
        *last,
        nn.Flatten(),
        nn.Linear(512, 128),
    )


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
            body = [
                nn.Conv2d(c, 4, 1),
                nn.BatchNorm2d(4),
                nn.PReLU(),
                *layer,
                nn.BatchNorm2d(4),
                nn.PReLU(),
                nn.Conv2d(4, c, 1),
            ]
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
        line = lambda d: [
            nn.Conv2d(c, c, (3, 1), padding=(d, 0), dilation=(d, 1)),
            nn.ReLU(),
            nn.Conv2d(c, c, (1, 3), padding=(0, d), dilation=(1, d)),
            nn.BatchNorm2d(c),
        ]
        return Residual(*line(1), nn.ReLU(), *line(d), act=nn.ReLU())

    up = [nn.ConvTranspose2d(64, 16, 3, 2, 1, output_padding=1), nn.BatchNorm2d(16), nn.ReLU(), block(16, 1)]
    return nn.Sequential(
        *conv(3, 16, 3, 2), *conv(16, 64, 3, 2), block(64, 2), block(64, 4), *up, nn.ConvTranspose2d(16, 20, 2, 2)
    )


class Pillars(nn.Module):
    """Lang et al., PointPillars, 2019: the network of the pillars, and the first block of the backbone."""

    def __init__(self):
        super().__init__()
        self.points = nn.Sequential(nn.Linear(9, 64), nn.ReLU())
        self.body = nn.Sequential(
            *conv(64, 64, 3, 2), *conv(64, 64), *conv(64, 64), nn.ConvTranspose2d(64, 32, 2, 2), nn.ReLU()
        )
        self.register_buffer("places", torch.randperm(64 * 64)[:400])

    def forward(self, x):
        pillars = self.points(x).max(1).values
        canvas = torch.zeros(64 * 64, 64).index_copy(0, self.places, pillars)
        return self.body(canvas.t().reshape(1, 64, 64, 64))


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
        self.c, self.d = nn.Sequential(unit(32, 8, 1), unit(8, 16, 3)), nn.Sequential(
            nn.MaxPool3d(3, 1, 1), unit(32, 16, 1)
        )

    def forward(self, x):
        x = self.stem(x)
        return torch.cat([self.a(x), self.b(x), self.c(x), self.d(x)], 1).mean((2, 3, 4))


NETWORKS = {
    "vnet": (VNet, image(1, 32, 32, 32)),
    "pix2pix": (Pix2Pix, image(3, 128, 128)),
    "x3d": (x3d, image(3, 8, 96, 96)),
    "nasnet": (NasNet, image(3, 64, 64)),
    "srresnet": (srresnet, image(3, 48, 48)),
    "rrdb": (rrdb, image(3, 48, 48)),
    "aspp": (Aspp, image(128, 32, 32)),
    "pyramid": (PyramidPooling, image(128, 30, 30)),
    "hourglass": (Hourglass, image(3, 128, 128)),
    "blazeface": (BlazeFace, image(3, 128, 128)),
    "mobilefacenet": (mobilefacenet, image(3, 112, 112)),
    "p_net": (p_net, image(3, 96, 128)),
    "enet": (ENet, image(3, 128, 256)),
    "erfnet": (erfnet, image(3, 128, 128)),
    "pillars": (Pillars, [torch.zeros(400, 32, 9)]),
    "capsules": (Capsules, image(1, 28, 28)),
    "shufflenet_v1": (shufflenet_v1, image(240, 28, 28)),
    "i3d": (Slow, image(3, 8, 64, 64)),
}
