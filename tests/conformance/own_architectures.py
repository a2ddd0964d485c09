"""Architectures written out here: the kinds that the libraries do not have."""

import torch
from torch import nn
from torch.nn import functional as F

from architectures import image, model


def block(into, out, kernel=3, stride=1, groups=1):
    convolution = nn.Conv2d(into, out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out), nn.SiLU())


class C2f(nn.Module):
    """The block of YOLOv8: both halves and every bottleneck are concatenated."""

    def __init__(self, into, out, count=1):
        super().__init__()
        self.half = out // 2
        self.first, self.last = block(into, out, 1), block((2 + count) * self.half, out, 1)
        self.bottlenecks = nn.ModuleList(
            nn.Sequential(block(self.half, self.half), block(self.half, self.half)) for _ in range(count))

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for bottleneck in self.bottlenecks:
            parts.append(parts[-1] + bottleneck(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """YOLOv8's backbone, neck and head with distribution focal loss, two scales."""

    def __init__(self, classes=4, bins=8):
        super().__init__()
        self.bins, self.classes = bins, classes
        self.stem = nn.Sequential(block(3, 8, 3, 2), block(8, 16, 3, 2), C2f(16, 16), block(16, 32, 3, 2), C2f(32, 32, 2))
        self.deep = nn.Sequential(block(32, 64, 3, 2), C2f(64, 64))
        self.pool, self.after_pool = nn.MaxPool2d(5, 1, 2), block(256, 64, 1)
        self.up, self.down = C2f(96, 32), block(32, 32, 3, 2)
        self.out = C2f(96, 64)
        self.boxes = nn.ModuleList(nn.Conv2d(c, 4 * bins, 1) for c in (32, 64))
        self.scores = nn.ModuleList(nn.Conv2d(c, classes, 1) for c in (32, 64))

    def forward(self, x):
        fine = self.stem(x)
        deep = self.deep(fine)
        pooled = [deep]
        for _ in range(3):
            pooled.append(self.pool(pooled[-1]))
        deep = self.after_pool(torch.cat(pooled, 1))
        fine = self.up(torch.cat([F.interpolate(deep, scale_factor=2.0), fine], 1))
        deep = self.out(torch.cat([self.down(fine), deep], 1))
        boxes, scores = [], []
        for level, (size, features) in enumerate(((8, fine), (4, deep))):
            box = self.boxes[level](features).flatten(2)
            box = box.view(-1, 4, self.bins, size * size).softmax(2)
            distance = (box * torch.arange(self.bins, dtype=torch.float32).view(1, 1, -1, 1)).sum(2)
            at = torch.arange(size, dtype=torch.float32) + 0.5
            centers = torch.stack(torch.meshgrid(at, at, indexing="xy")).flatten(1)
            boxes.append(torch.cat([centers - distance[:, :2], centers + distance[:, 2:]], 1) * (64 / size))
            scores.append(self.scores[level](features).flatten(2).sigmoid())
        return torch.cat([torch.cat(boxes, 2), torch.cat(scores, 2)], 1)


@model
def own_yolo():
    return Yolo(), image(64)


class UNet(nn.Module):
    def __init__(self, channels=(8, 16, 32)):
        super().__init__()
        pair = lambda a, b: nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1), nn.InstanceNorm2d(b), nn.LeakyReLU(0.1), nn.Conv2d(b, b, 3, padding=1), nn.ReLU())
        self.down = nn.ModuleList(pair(a, b) for a, b in zip((1, *channels), channels))
        self.lift = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(channels, channels[1:]))
        self.up = nn.ModuleList(pair(2 * a, a) for a in channels[:-1])
        self.head = nn.Conv2d(channels[0], 2, 1)

    def forward(self, x):
        saved = []
        for layer in self.down:
            saved.append(layer(x))
            x = F.max_pool2d(saved[-1], 2)
        x = saved[-1]
        for layer, lift, skip in zip(reversed(self.up), reversed(self.lift), reversed(saved[:-1])):
            x = layer(torch.cat([lift(x), skip], 1))
        return self.head(x).softmax(1)


@model
def own_unet():
    return UNet(), image(32, channels=1)


@model
def own_dcgan_generator():
    layers = []
    for into, out in ((16, 32), (32, 16), (16, 8)):
        layers += [nn.ConvTranspose2d(into, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
    layers = [nn.ConvTranspose2d(20, 16, 4, 1, 0), nn.ReLU(), *layers, nn.Conv2d(8, 3, 3, padding=1), nn.Tanh()]
    return nn.Sequential(*layers), [torch.randn(2, 20, 1, 1)]


@model
def own_super_resolution():
    layers = [nn.Conv2d(3, 16, 5, padding=2), nn.PReLU(16), nn.ReflectionPad2d(1), nn.Conv2d(16, 12, 3), nn.PixelShuffle(2)]
    return nn.Sequential(*layers), image(24)


class Ssd(nn.Module):
    """Class scores and boxes decoded from anchors, of two feature maps; no suppression."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(block(3, 8, 3, 2), block(8, 16, 3, 2), block(16, 16, 3, 1, 16), block(16, 24, 1))
        self.second = block(24, 32, 3, 2)
        self.heads = nn.ModuleList(nn.Conv2d(c, 3 * (4 + 5), 3, padding=1) for c in (24, 32))
        self.register_buffer("anchors", torch.rand(3 * (64 + 16), 4))

    def forward(self, x):
        first = self.first(x)
        features = [first, self.second(first)]
        parts = [h(f).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 9) for h, f in zip(self.heads, features)]
        joined = torch.cat(parts, 1)
        box, score = joined[..., :4], joined[..., 4:].softmax(-1)
        center = self.anchors[:, :2] + box[..., :2] * 0.1 * self.anchors[:, 2:]
        size = self.anchors[:, 2:] * torch.exp(box[..., 2:] * 0.2)
        return torch.cat([center - size / 2, center + size / 2], -1), score


@model
def own_ssd_head():
    return Ssd(), image(32)


class Recurrent(nn.Module):
    def __init__(self, kind, **arguments):
        super().__init__()
        self.layers = kind(12, 16, batch_first=True, **arguments)
        self.head = nn.Linear(16 * (2 if arguments.get("bidirectional") else 1), 5)

    def forward(self, x):
        return self.head(self.layers(x)[0])


@model
def own_lstm():
    return Recurrent(nn.LSTM, num_layers=2), [torch.randn(2, 9, 12)]


@model
def own_bidirectional_lstm():
    return Recurrent(nn.LSTM, bidirectional=True), [torch.randn(2, 9, 12)]


@model
def own_gru():
    return Recurrent(nn.GRU, num_layers=2), [torch.randn(2, 9, 12)]


@model
def own_rnn():
    return Recurrent(nn.RNN), [torch.randn(2, 9, 12)]


class Crnn(nn.Module):
    """Text recognition: convolutions, then a recurrent network over columns."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(block(1, 8), nn.MaxPool2d(2), block(8, 16), nn.MaxPool2d((2, 1)))
        self.rnn = nn.GRU(64, 12, bidirectional=True, batch_first=True)
        self.head = nn.Linear(24, 11)

    def forward(self, x):
        x = self.features(x).permute(0, 3, 1, 2).flatten(2)
        return self.head(self.rnn(x)[0]).log_softmax(-1)


@model
def own_crnn():
    return Crnn(), [torch.rand(1, 1, 16, 40)]


class Graph(nn.Module):
    """Two layers of graph convolution and one of graph attention over edges given as input."""

    def __init__(self, width=16):
        super().__init__()
        self.first, self.second = nn.Linear(8, width), nn.Linear(width, width)
        self.score = nn.Linear(2 * width, 1)
        self.head = nn.Linear(width, 3)

    def gather(self, x, edges, weights):
        messages = x.index_select(0, edges[0]) * weights
        return torch.zeros_like(x).index_add(0, edges[1], messages)

    def forward(self, x, edges):
        count = torch.zeros(x.shape[0]).index_add(0, edges[1], torch.ones(edges.shape[1]))
        norm = count.clamp(min=1).rsqrt()
        weights = (norm[edges[0]] * norm[edges[1]]).unsqueeze(1)
        x = F.relu(self.gather(self.first(x), edges, weights))
        x = self.second(x)
        score = F.leaky_relu(self.score(torch.cat([x[edges[0]], x[edges[1]]], 1)), 0.2).exp()
        total = torch.zeros(x.shape[0], 1).index_add(0, edges[1], score)
        x = self.gather(x, edges, score / total[edges[1]].clamp(min=1e-6))
        return self.head(F.elu(x)).log_softmax(-1)


@model
def own_graph_network():
    return Graph(), [torch.randn(10, 8), torch.randint(0, 10, (2, 30))]


class DenseGraph(nn.Module):
    """Graph convolution with a dense adjacency matrix."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x, adjacency):
        adjacency = adjacency + torch.eye(adjacency.shape[0])
        degree = adjacency.sum(1).rsqrt()
        adjacency = degree[:, None] * adjacency * degree[None, :]
        return adjacency @ self.second(F.relu(adjacency @ self.first(x)))


@model
def own_dense_graph_network():
    return DenseGraph(), [torch.randn(10, 8), (torch.rand(10, 10) > 0.6).float()]


class WaveNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**i) for i in range(4))
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(4))
        self.head = nn.Conv1d(width, 16, 1)

    def forward(self, x):
        x, total = self.first(x), 0
        for i, (gate, mix) in enumerate(zip(self.gates, self.mix)):
            a, b = gate(F.pad(x, (2**i, 0))).chunk(2, 1)
            part = mix(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + part, total + part
        return self.head(F.relu(total))


@model
def own_wavenet():
    return WaveNet(), [torch.randn(1, 1, 64)]


@model
def own_keyword_spotting():
    layers = [block(1, 16, 5, 2)]
    for _ in range(3):
        layers += [block(16, 16, 3, 1, 16), block(16, 16, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 12)), [torch.randn(1, 1, 40, 20)]


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.points = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1))
        self.head = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.head(self.points(x).max(-1).values)


@model
def own_pointnet():
    return PointNet(), [torch.randn(2, 3, 50)]


class Diffusion(nn.Module):
    """One level of a denoising U-Net: time embedding, residual block with group norm, attention."""

    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.into = nn.Conv2d(3, width, 3, padding=1)
        self.norm, self.conv = nn.GroupNorm(4, width), nn.Conv2d(width, width, 3, padding=1)
        self.attend = nn.MultiheadAttention(width, 4, batch_first=True)
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, step):
        rate = torch.exp(-torch.arange(self.width // 2) * 0.5)
        angle = step[:, None] * rate
        time = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        x = self.into(x)
        x = x + self.conv(F.silu(self.norm(x))) + time[:, :, None, None]
        flat = x.flatten(2).transpose(1, 2)
        flat = flat + self.attend(flat, flat, flat, need_weights=False)[0]
        return self.out(flat.transpose(1, 2).reshape(x.shape))


@model
def own_diffusion():
    return Diffusion(), [*image(16), torch.tensor([7.0])]


class FieldNetwork(nn.Module):
    """A radiance field: positional encoding, then dense layers with a skip connection."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(27, 32), nn.Linear(59, 32), nn.Linear(32, 4)

    def forward(self, x):
        waves = [f(x * 2**i) for i in range(4) for f in (torch.sin, torch.cos)]
        encoded = torch.cat([x, *waves], -1)
        hidden = F.softplus(self.first(encoded))
        rest = self.out(F.gelu(self.second(torch.cat([hidden, encoded], -1))))
        return rest[..., :3].sigmoid(), rest[..., 3:].relu()


@model
def own_radiance_field():
    return FieldNetwork(), [torch.randn(20, 3)]


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ELU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ELU(), nn.Flatten())
        self.mean, self.spread = nn.Linear(16 * 16, 6), nn.Linear(16 * 16, 6)
        self.grow = nn.Linear(6, 16 * 16)
        self.decode = nn.Sequential(nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.CELU(), nn.ConvTranspose2d(8, 1, 4, 2, 1))

    def forward(self, x, noise):
        hidden = self.encode(x)
        mean, spread = self.mean(hidden), self.spread(hidden)
        code = mean + noise * torch.exp(0.5 * spread)
        return self.decode(self.grow(code).view(-1, 16, 4, 4)).sigmoid(), mean, spread


@model
def own_vae():
    return Vae(), [*image(16, channels=1), torch.randn(1, 6)]


class Recommender(nn.Module):
    """Deep factorisation machine over categorical features and numbers."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.linear = nn.Embedding(50, 1)
        self.deep = nn.Sequential(nn.Linear(6 * 8 + 4, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, features, numbers):
        vectors = self.embed(features)
        pairs = 0.5 * (vectors.sum(1).square() - vectors.square().sum(1)).sum(1, keepdim=True)
        deep = self.deep(torch.cat([vectors.flatten(1), numbers], 1))
        return torch.sigmoid(self.linear(features).sum(1) + pairs + deep)


@model
def own_recommender():
    return Recommender(), [torch.randint(0, 50, (3, 6)), torch.randn(3, 4)]


class SpatialTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.locate = nn.Sequential(nn.Conv2d(1, 4, 5, 2), nn.ReLU(), nn.AdaptiveMaxPool2d(4), nn.Flatten(), nn.Linear(64, 6))

    def forward(self, x):
        theta = self.locate(x).view(-1, 2, 3) * 0.1 + torch.tensor([[1.0, 0, 0], [0, 1.0, 0]])
        at = (torch.arange(20, dtype=torch.float32) + 0.5) / 10 - 1
        points = torch.stack([*torch.meshgrid(at, at, indexing="xy"), torch.ones(20, 20)], -1).reshape(1, 400, 3)
        grid = (points @ theta.transpose(1, 2)).view(-1, 20, 20, 2)
        return F.grid_sample(x, grid, align_corners=False)


@model
def own_spatial_transformer():
    return SpatialTransformer(), image(20, channels=1)


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(3, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(8, 12, 3, padding=1),
            nn.Hardswish(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(12, 5))

    def forward(self, x):
        return self.layers(x)


@model
def own_video():
    return Video(), [torch.randn(1, 3, 8, 16, 16)]


class Forecast(nn.Module):
    """Time series: reversible normalisation, patches, an encoder layer."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu")
        self.head = nn.Linear(16 * 11, 6)

    def forward(self, x):
        mean, spread = x.mean(1, keepdim=True), x.std(1, keepdim=True, unbiased=False) + 1e-5
        parts = ((x - mean) / spread).unfold(1, 8, 4)
        y = self.head(self.layer(self.embed(parts)).flatten(1))
        return y * spread + mean


@model
def own_forecast():
    return Forecast(), [torch.randn(2, 48)]
