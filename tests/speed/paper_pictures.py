"""More networks of papers for images, made smaller: matching, restoration, synthesis, detection, games: NETWORKS, by name what
makes one and its inputs."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from paper_images import conv, image
from paper_layers import Layer, dense


class Detr(nn.Module):
    """Carion et al., 2020: 49 places, 20 queries."""

    def __init__(self, width=128):
        super().__init__()
        blocks = conv(3, 32, 3, 2) + conv(32, 64, 3, 2) + conv(64, 128, 3, 2) + conv(128, width, 3, 2)
        self.body = nn.Sequential(*blocks)
        self.place, self.queries = nn.Parameter(torch.randn(49, width)), nn.Parameter(torch.randn(1, 20, width))
        self.encoder = nn.ModuleList(Layer(width) for _ in range(2))
        self.decoder = nn.ModuleList(Layer(width, cross=True) for _ in range(2))
        self.classes, self.boxes = nn.Linear(width, 92), dense(width, width, width, 4)

    def forward(self, x):
        memory = self.body(x).flatten(2).transpose(1, 2) + self.place
        for layer in self.encoder:
            memory = layer(memory)
        y = self.queries
        for layer in self.decoder:
            y = layer(y, memory)
        return self.classes(y).softmax(-1), self.boxes(y).sigmoid()


class SuperPoint(nn.Module):
    """DeTone et al., 2018: a grid of points and descriptors."""

    def __init__(self):
        super().__init__()
        pool = nn.MaxPool2d(2)
        body = conv(1, 32) + conv(32, 32) + [pool] + conv(32, 32) + [pool] + conv(32, 64) + [pool] + conv(64, 64)
        self.body = nn.Sequential(*body)
        self.points = nn.Sequential(*conv(64, 128), nn.Conv2d(128, 65, 1))
        self.descriptors = nn.Sequential(*conv(64, 128), nn.Conv2d(128, 128, 1))

    def forward(self, x):
        x = self.body(x)
        heat = F.pixel_shuffle(self.points(x).softmax(1)[:, :-1], 8)
        near = F.max_pool2d(heat, 9, 1, 4)
        return torch.where(heat == near, heat, torch.zeros_like(heat)), F.normalize(self.descriptors(x), dim=1)


class Correlation(nn.Module):
    """Teed and Deng, RAFT, 2020: all pairs, one lookup and update."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*conv(3, 32, 7, 2), *conv(32, 64, 3, 2), nn.Conv2d(64, 64, 1))
        self.update = nn.Sequential(*conv(81 + 2, 64), nn.Conv2d(64, 2, 3, padding=1))

    def forward(self, a, b, flow):
        a, b = self.body(a), self.body(b)
        h, w = a.shape[2:]
        volume = (a.flatten(2).transpose(1, 2) @ b.flatten(2) / 8.0).reshape(h * w, 1, h, w)
        steps = torch.arange(-4.0, 5.0)
        ys, xs = torch.meshgrid(torch.arange(float(h)), torch.arange(float(w)), indexing="ij")
        at = (torch.stack([xs, ys]) + flow[0]).flatten(1).t().reshape(h * w, 1, 1, 2)
        around = torch.stack(torch.meshgrid(steps, steps, indexing="ij"), -1).unsqueeze(0)
        grid = (at + around) * 2 / torch.tensor([w - 1.0, h - 1.0]) - 1
        found = F.grid_sample(volume, grid, align_corners=True).reshape(1, h, w, 81).permute(0, 3, 1, 2)
        return flow + self.update(torch.cat([found, flow], 1))


class Stereo(nn.Module):
    """Khamis et al., StereoNet, 2018: a volume of shifted differences."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            *conv(3, 32, 5, 2), *conv(32, 32, 5, 2), *conv(32, 32, 5, 2), nn.Conv2d(32, 32, 3, padding=1)
        )
        layers = [layer for _ in range(3) for layer in (nn.Conv3d(32, 32, 3, padding=1), nn.LeakyReLU(0.2))]
        self.filter = nn.Sequential(*layers, nn.Conv3d(32, 1, 3, padding=1))

    def forward(self, a, b):
        a, b = self.body(a), self.body(b)
        shifted = [F.pad(b, (d, 0))[..., : a.shape[-1]] for d in range(12)]
        cost = self.filter(torch.stack([a - s for s in shifted], 2)).squeeze(1)
        return ((-cost).softmax(1) * torch.arange(12.0).reshape(1, 12, 1, 1)).sum(1)


class AttentionGate(nn.Module):
    def __init__(self, skip, up, width):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(skip, width, 1), nn.Conv2d(up, width, 1), nn.Conv2d(width, 1, 1)

    def forward(self, skip, up):
        return skip * self.c((self.a(skip) + self.b(up)).relu()).sigmoid()


class AttentionUnet(nn.Module):
    """Oktay et al., 2018."""

    def __init__(self, sizes=(16, 32, 64)):
        super().__init__()
        block = lambda i, o: nn.Sequential(*conv(i, o), *conv(o, o))
        self.down = nn.ModuleList(block(i, o) for i, o in zip((1, *sizes), sizes))
        self.up = nn.ModuleList(nn.ConvTranspose2d(o, i, 2, 2) for i, o in zip(sizes, sizes[1:]))
        self.gates = nn.ModuleList(AttentionGate(i, i, i // 2) for i in sizes[:-1])
        self.join, self.last = nn.ModuleList(block(2 * i, i) for i in sizes[:-1]), nn.Conv2d(sizes[0], 1, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = skips.pop()
        for up, gate, join in zip(reversed(self.up), reversed(self.gates), reversed(self.join)):
            x, skip = up(x), skips.pop()
            x = join(torch.cat([gate(skip, x), x], 1))
        return self.last(x).sigmoid()


class Diffusion(nn.Module):
    """Rombach et al., latent diffusion, 2022: a block with time and text."""

    def __init__(self, width=64):
        super().__init__()
        self.time, self.first = dense(width, width, width, act=nn.SiLU), nn.Conv2d(4, width, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(16, width) for _ in range(4))
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(3))
        self.layer, self.text, self.last = (
            Layer(width, cross=True),
            nn.Linear(96, width),
            nn.Conv2d(width, 4, 3, padding=1),
        )

    def forward(self, x, t, text):
        angles = t * torch.exp(torch.arange(32) * (-math.log(10000.0) / 32))
        time = self.time(torch.cat([angles.cos(), angles.sin()], -1)).reshape(1, -1, 1, 1)
        x = self.first(x)
        for i in (0, 1):
            y = self.convs[i](F.silu(self.norms[i](x)))
            x = x + y + time
        h, w = x.shape[2:]
        y = self.layer(self.norms[2](x).flatten(2).transpose(1, 2), self.text(text))
        x = x + y.transpose(1, 2).unflatten(2, (h, w))
        return self.last(F.silu(self.norms[3](x)))


class Modulated(nn.Module):
    """Karras et al., StyleGAN2, 2020: weights that depend on a style."""

    def __init__(self, width=32):
        super().__init__()
        self.style = dense(64, 64, 64, act=lambda: nn.LeakyReLU(0.2))
        self.start, self.scales = nn.Parameter(torch.randn(1, width, 8, 8)), nn.ModuleList(
            nn.Linear(64, width) for _ in range(3)
        )
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(width, width, 3, 3)) for _ in range(3))
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, z):
        style, x = self.style(z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8)), self.start
        for scale, weight in zip(self.scales, self.weights):
            w = weight * (scale(style)[0] + 1).reshape(1, -1, 1, 1)
            w = w * torch.rsqrt(w.square().sum((1, 2, 3), keepdim=True) + 1e-8)
            x = F.leaky_relu(F.conv2d(F.interpolate(x, scale_factor=2.0, mode="bilinear"), w, padding=1), 0.2)
        return self.last(x)


class Restormer(nn.Module):
    """Zamir et al., 2022: attention between channels, gated depthwise layers."""

    def __init__(self, width=32, heads=2):
        super().__init__()
        self.heads, self.temperature = heads, nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv = nn.Sequential(
            nn.Conv2d(width, 3 * width, 1), nn.Conv2d(3 * width, 3 * width, 3, 1, 1, groups=3 * width)
        )
        self.out, self.norms = nn.Conv2d(width, width, 1), nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.up = nn.Sequential(
            nn.Conv2d(width, 4 * width, 1), nn.Conv2d(4 * width, 4 * width, 3, 1, 1, groups=4 * width)
        )
        self.down = nn.Conv2d(2 * width, width, 1)
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)

    def norm(self, i, x):
        return self.norms[i](x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    def forward(self, image):
        x = self.first(image)
        h, w = x.shape[2:]
        q, k, v = (y.flatten(2).unflatten(1, (self.heads, -1)) for y in self.qkv(self.norm(0, x)).chunk(3, 1))
        a = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.temperature).softmax(-1)
        x = x + self.out((a @ v).flatten(1, 2).unflatten(2, (h, w)))
        a, b = self.up(self.norm(1, x)).chunk(2, 1)
        return image + self.last(x + self.down(F.gelu(a) * b))


class NafNet(nn.Module):
    """Chen et al., 2022: gates by products, no activation."""

    def __init__(self, width=32, blocks=3):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        make = lambda: nn.ModuleList(
            [
                nn.LayerNorm(width),
                nn.Conv2d(width, 2 * width, 1),
                nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width),
            ]
            + [
                nn.Conv2d(width, width, 1),
                nn.Conv2d(width, width, 1),
                nn.LayerNorm(width),
                nn.Conv2d(width, 2 * width, 1),
                nn.Conv2d(width, width, 1),
            ]
        )
        self.blocks = nn.ModuleList(make() for _ in range(blocks))

    def forward(self, image):
        x = self.first(image)
        for norm, up, depth, scale, out, norm2, up2, out2 in self.blocks:
            a, b = depth(up(norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))).chunk(2, 1)
            y = a * b
            x = x + out(y * scale(y.mean((2, 3), keepdim=True)))
            a, b = up2(norm2(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)).chunk(2, 1)
            x = x + out2(a * b)
        return image + self.last(x)


class Curves(nn.Module):
    """Guo et al., Zero-DCE, 2020: eight curves for every pixel."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(i, 32, 3, padding=1) for i in (3, 32, 32, 32, 64, 64))
        self.last = nn.Conv2d(64, 24, 3, padding=1)

    def forward(self, x):
        a = self.convs[0](x).relu()
        b = self.convs[1](a).relu()
        c = self.convs[2](b).relu()
        d = self.convs[3](c).relu()
        e = self.convs[4](torch.cat([c, d], 1)).relu()
        f = self.convs[5](torch.cat([b, e], 1)).relu()
        for curve in self.last(torch.cat([a, f], 1)).tanh().split(3, 1):
            x = x + curve * (x * x - x)
        return x


def atari():
    """Mnih et al., DQN, 2015."""
    body = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6))


class Impala(nn.Module):
    """Espeholt et al., IMPALA, 2018."""

    def __init__(self):
        super().__init__()
        pairs = [(4, 16), (16, 32), (32, 32)]
        self.first = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in pairs)
        self.blocks = nn.ModuleList(nn.ModuleList(nn.Conv2d(o, o, 3, padding=1) for _ in range(4)) for _, o in pairs)
        self.head = nn.Linear(2048, 256)

    def forward(self, x):
        for first, (a, b, c, d) in zip(self.first, self.blocks):
            x = F.max_pool2d(first(x), 3, 2)
            x = x + b(a(x.relu()).relu())
            x = x + d(c(x.relu()).relu())
        return self.head(x.relu().flatten(1)).relu()


class Go(nn.Module):
    """Silver et al., AlphaZero, 2018: a board of 19 x 19."""

    def __init__(self, width=64, blocks=4):
        super().__init__()
        self.first = nn.Sequential(*conv(17, width))
        self.blocks = nn.ModuleList(
            nn.Sequential(*conv(width, width), nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width))
            for _ in range(blocks)
        )
        self.policy = nn.Sequential(*conv(width, 2, 1), nn.Flatten(), nn.Linear(722, 362))
        self.value = nn.Sequential(
            *conv(width, 1, 1), nn.Flatten(), nn.Linear(361, 256), nn.ReLU(), nn.Linear(256, 1), nn.Tanh()
        )

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = (x + block(x)).relu()
        return self.policy(x), self.value(x)


class Pose(nn.Module):
    """Cao et al., OpenPose, 2017: two stages over features of a light body."""

    def __init__(self):
        super().__init__()
        depth = lambda i, o, s=1: conv(i, i, 3, s, groups=i) + conv(i, o, 1)
        self.body = nn.Sequential(
            *conv(3, 32, 3, 2), *depth(32, 64), *depth(64, 128, 2), *depth(128, 128), *depth(128, 128, 2)
        )
        stage = lambda i: nn.Sequential(*conv(i, 64, 7), *conv(64, 64, 7), *conv(64, 64, 1), nn.Conv2d(64, 57, 1))
        self.first, self.second = stage(128), stage(128 + 57)

    def forward(self, x):
        x = self.body(x)
        first = self.first(x)
        return first, self.second(torch.cat([x, first], 1))


class East(nn.Module):
    """Zhou et al., EAST, 2017: text boxes with angles."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(
            nn.Sequential(*conv(i, o, 3, 2), *conv(o, o)) for i, o in ((3, 16), (16, 32), (32, 64), (64, 96))
        )
        self.up = nn.ModuleList(
            nn.Sequential(*conv(i, o, 1), *conv(o, o)) for i, o in ((96 + 64, 64), (64 + 32, 32), (32 + 16, 16))
        )
        self.score, self.box, self.angle = nn.Conv2d(16, 1, 1), nn.Conv2d(16, 4, 1), nn.Conv2d(16, 1, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            x = down(x)
            skips.append(x)
        for up, skip in zip(self.up, reversed(skips[:-1])):
            x = up(torch.cat([F.interpolate(x, scale_factor=2.0, mode="bilinear"), skip], 1))
        angle = (self.angle(x).sigmoid() - 0.5) * math.pi
        return self.score(x).sigmoid(), torch.cat([self.box(x).sigmoid() * 512, angle], 1)


NETWORKS = {
    "detr": (Detr, image(3, 112, 112)),
    "super_point": (SuperPoint, image(1, 120, 120)),
    "raft": (Correlation, (torch.randn(1, 3, 96, 96), torch.randn(1, 3, 96, 96), torch.randn(1, 2, 24, 24))),
    "stereo_net": (Stereo, (torch.randn(1, 3, 128, 160), torch.randn(1, 3, 128, 160))),
    "attention_unet": (AttentionUnet, image(1, 96, 96)),
    "latent_diffusion": (Diffusion, (torch.randn(1, 4, 32, 32), torch.rand(1, 1), torch.randn(1, 16, 96))),
    "style_gan": (Modulated, (torch.randn(1, 64),)),
    "restormer": (Restormer, image(3, 64, 64)),
    "naf_net": (NafNet, image(3, 64, 64)),
    "zero_dce": (Curves, image(3, 96, 96)),
    "atari": (atari, image(4, 84, 84)),
    "impala": (Impala, image(4, 72, 72)),
    "go": (Go, image(17, 19, 19)),
    "open_pose": (Pose, image(3, 128, 128)),
    "east": (East, image(3, 128, 128)),
}
