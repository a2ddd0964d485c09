"""Networks of papers that halve and double sizes, made smaller: coding, synthesis, flow, segmentation, restoration: NETWORKS, by
name what makes one and its inputs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from paper_images import conv, image


class Divisive(nn.Module):
    """Ballé et al., 2016: generalized divisive normalization."""

    def __init__(self, width, inverse=False):
        super().__init__()
        self.sums = nn.Conv2d(width, width, 1)
        self.inverse = inverse
        nn.init.uniform_(self.sums.weight, 0, 0.1)
        nn.init.ones_(self.sums.bias)

    def forward(self, x):
        norm = torch.sqrt(self.sums(x * x).abs())
        return x * norm if self.inverse else x / norm


def halved(i, o, taps=5):
    return nn.Conv2d(i, o, taps, 2, (taps - 1) // 2)


def doubled(i, o, taps=5):
    return nn.ConvTranspose2d(i, o, taps, 2, (taps - 1) // 2, output_padding=taps % 2)


class Hyperprior(nn.Module):
    """Ballé et al., 2018: an image, its code, and scales of the code."""

    def __init__(self, n=64, m=96):
        super().__init__()
        self.coded = nn.Sequential(
            halved(3, n), Divisive(n), halved(n, n), Divisive(n), halved(n, n), Divisive(n), halved(n, m)
        )
        self.side = nn.Sequential(nn.Conv2d(m, n, 3, padding=1), nn.ReLU(), halved(n, n), nn.ReLU(), halved(n, n))
        self.scales = nn.Sequential(
            doubled(n, n), nn.ReLU(), doubled(n, n), nn.ReLU(), nn.Conv2d(n, m, 3, padding=1), nn.ReLU()
        )
        up = [
            doubled(m, n),
            Divisive(n, True),
            doubled(n, n),
            Divisive(n, True),
            doubled(n, n),
            Divisive(n, True),
            doubled(n, 3),
        ]
        self.image = nn.Sequential(*up)

    def forward(self, x):
        y = self.coded(x)
        z = torch.round(self.side(y.abs()))
        return self.image(torch.round(y)), self.scales(z)


def leaky(*layers):
    return nn.Sequential(*(part for layer in layers for part in (layer, nn.LeakyReLU(0.2))))


def patch_gan():
    """Isola et al., 2017."""
    norm = nn.InstanceNorm2d
    body = leaky(halved(6, 32, 4), halved(32, 64, 4), norm(64), halved(64, 128, 4), norm(128))
    return nn.Sequential(body, nn.Conv2d(128, 128, 4, 1, 1), nn.LeakyReLU(0.2), nn.Conv2d(128, 1, 4, 1, 1))


def dcgan_generator():
    """Radford et al., 2016."""
    layers = [nn.ConvTranspose2d(64, 256, 4, 1, 0), nn.BatchNorm2d(256), nn.ReLU()]
    for i, o in ((256, 128), (128, 64), (64, 32)):
        layers += [doubled(i, o, 4), nn.BatchNorm2d(o), nn.ReLU()]
    return nn.Sequential(*layers, doubled(32, 3, 4), nn.Tanh())


def dcgan_discriminator():
    body = leaky(halved(3, 32, 4), halved(32, 64, 4), halved(64, 128, 4), halved(128, 256, 4))
    return nn.Sequential(body, nn.Conv2d(256, 1, 4), nn.Sigmoid())


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


def cycle_gan(width=32):
    """Zhu et al., 2017: mirrored borders, instance norms."""
    norm, n = nn.InstanceNorm2d, 4 * width
    layers = [nn.ReflectionPad2d(3), nn.Conv2d(3, width, 7), norm(width), nn.ReLU()]
    for i in (width, 2 * width):
        layers += [nn.Conv2d(i, 2 * i, 3, 2, 1), norm(2 * i), nn.ReLU()]
    for _ in range(3):
        half = [nn.ReflectionPad2d(1), nn.Conv2d(n, n, 3), norm(n)]
        layers.append(Residual(*half, nn.ReLU(), nn.ReflectionPad2d(1), nn.Conv2d(n, n, 3), norm(n)))
    for i in (n, 2 * width):
        layers += [doubled(i, i // 2, 3), norm(i // 2), nn.ReLU()]
    return nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh())


class FlowNet(nn.Module):
    """Dosovitskiy et al., 2015: flows at three sizes."""

    def __init__(self):
        super().__init__()
        sizes = ((6, 32, 7), (32, 64, 5), (64, 128, 5), (128, 128, 3))
        self.down = nn.ModuleList(leaky(halved(i, o, taps)) for i, o, taps in sizes)
        self.flows = nn.ModuleList(nn.Conv2d(i, 2, 3, padding=1) for i in (128, 194, 98))
        self.up = nn.ModuleList(leaky(doubled(i, o, 4)) for i, o in ((128, 64), (194, 32)))
        self.up_flow = nn.ModuleList(doubled(2, 2, 4) for _ in range(2))

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        flows = [self.flows[0](x)]
        for i, skip in enumerate((skips[2], skips[1])):
            x = torch.cat([skip, self.up[i](x), self.up_flow[i](flows[-1])], 1)
            flows.append(self.flows[i + 1](x))
        return tuple(flows)


class Quantised(nn.Module):
    """Van den Oord et al., VQ-VAE, 2017: the nearest of 256 codes."""

    def __init__(self, n=64):
        super().__init__()
        block = lambda: Residual(nn.ReLU(), nn.Conv2d(n, n, 3, padding=1), nn.ReLU(), nn.Conv2d(n, n, 1))
        down = [halved(3, n // 2, 4), nn.ReLU(), halved(n // 2, n, 4), nn.ReLU(), nn.Conv2d(n, n, 3, padding=1)]
        self.down = nn.Sequential(*down, block(), block())
        self.codes = nn.Parameter(torch.randn(256, n))
        self.up = nn.Sequential(block(), block(), nn.ReLU(), doubled(n, n // 2, 4), nn.ReLU(), doubled(n // 2, 3, 4))

    def forward(self, x):
        y = self.down(x).permute(0, 2, 3, 1)
        far = (self.codes * self.codes).sum(1) - 2 * y @ self.codes.t()
        found = F.embedding(far.argmin(-1), self.codes)
        return self.up(found.permute(0, 3, 1, 2))


def denoiser(channels=48, depth=8):
    """Zhang et al., DnCNN, 2017."""
    middle = [part for _ in range(depth) for part in conv(channels, channels)]
    return Residual(nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), *middle, nn.Conv2d(channels, 1, 3, padding=1))


def espcn():
    """Shi et al., 2016: three times as large."""
    body = [nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 32, 3, padding=1), nn.Tanh()]
    return nn.Sequential(*body, nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3))


def srcnn():
    """Dong et al., 2014."""
    return nn.Sequential(
        nn.Conv2d(1, 64, 9, padding=4),
        nn.ReLU(),
        nn.Conv2d(64, 32, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(32, 1, 5, padding=2),
    )


class LinkNet(nn.Module):
    """Chaurasia and Culurciello, 2017."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(*conv(3, 32, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.down = nn.ModuleList(nn.Sequential(*conv(i, o, 3, 2), *conv(o, o)) for i, o in ((32, 64), (64, 128)))
        self.up = nn.ModuleList(
            nn.Sequential(
                *conv(i, i // 4, 1), doubled(i // 4, i // 4, 3), nn.BatchNorm2d(i // 4), nn.ReLU(), *conv(i // 4, o, 1)
            )
            for i, o in ((128, 64), (64, 32))
        )
        self.last = nn.Sequential(doubled(32, 16, 3), nn.ReLU(), *conv(16, 16), nn.ConvTranspose2d(16, 12, 2, 2))

    def forward(self, x):
        a = self.first(x)
        b = self.down[0](a)
        c = self.up[0](self.down[1](b)) + b
        return self.last(self.up[1](c) + a)


class ScenePyramid(nn.Module):
    """Zhao et al., PSPNet, 2017: means of four sizes."""

    def __init__(self, n=64):
        super().__init__()
        self.body = nn.Sequential(*conv(3, 32, 3, 2), *conv(32, n, 3, 2), *conv(n, n, 3, 2), *conv(n, n))
        self.pools = nn.ModuleList(nn.Sequential(nn.AdaptiveAvgPool2d(k), *conv(n, n // 4, 1)) for k in (1, 2, 3, 6))
        self.last = nn.Sequential(*conv(2 * n, n), nn.Conv2d(n, 21, 1))

    def forward(self, x):
        y = self.body(x)
        pooled = [F.interpolate(pool(y), y.shape[2:], mode="bilinear", align_corners=True) for pool in self.pools]
        y = self.last(torch.cat([y, *pooled], 1))
        return F.interpolate(y, scale_factor=8.0, mode="bilinear").argmax(1)


NETWORKS = {
    "hyperprior": (Hyperprior, image(3, 128, 128)),
    "patch_gan": (patch_gan, image(6, 128, 128)),
    "dcgan_generator": (dcgan_generator, (torch.randn(1, 64, 1, 1),)),
    "dcgan_discriminator": (dcgan_discriminator, image(3, 64, 64)),
    "cycle_gan": (cycle_gan, image(3, 96, 96)),
    "flow_net": (FlowNet, image(6, 128, 160)),
    "vq_vae": (Quantised, image(3, 64, 64)),
    "dn_cnn": (denoiser, image(1, 64, 64)),
    "espcn": (espcn, image(1, 96, 96)),
    "srcnn": (srcnn, image(1, 96, 96)),
    "link_net": (LinkNet, image(3, 128, 128)),
    "psp_net": (ScenePyramid, image(3, 128, 128)),
}
