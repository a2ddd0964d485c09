"""Small networks of kinds that no library has: NETWORKS, by name what makes one and its inputs."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_bn(inputs, outputs, kernel=3, activation=nn.ReLU):
    return [nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2), nn.BatchNorm2d(outputs), activation()]


def small_cnn():
    layers = conv_bn(1, 8) + [nn.MaxPool2d(2)] + conv_bn(8, 16) + [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(784, 10), nn.Softmax(1))


class DnCNN(nn.Module):
    """Zhang et al., Beyond a Gaussian Denoiser, 2017; six layers between the first and the last."""

    def __init__(self):
        super().__init__()
        layers = sum([conv_bn(64, 64) for _ in range(6)], [])
        self.net = nn.Sequential(nn.Conv2d(1, 64, 3, padding=1), nn.ReLU(), *layers, nn.Conv2d(64, 1, 3, padding=1))

    def forward(self, x):
        return x - self.net(x)


def fsrcnn():
    """Dong et al., Accelerating the Super-Resolution Convolutional Neural Network, 2016."""
    layers = [nn.Conv2d(1, 56, 5, padding=2), nn.PReLU(56), nn.Conv2d(56, 12, 1), nn.PReLU(12)]
    for _ in range(4):
        layers += [nn.Conv2d(12, 12, 3, padding=1), nn.PReLU(12)]
    layers += [nn.Conv2d(12, 56, 1), nn.PReLU(56), nn.ConvTranspose2d(56, 1, 9, 2, 4, output_padding=1)]
    return nn.Sequential(*layers)


class Style(nn.Module):
    """Johnson et al., Perceptual Losses for Real-Time Style Transfer, 2016; half the channels, three residual blocks."""

    def __init__(self):
        super().__init__()

        def layer(inputs, outputs, kernel=3, stride=1):
            pad = nn.ReflectionPad2d(kernel // 2)
            convolution = nn.Conv2d(inputs, outputs, kernel, stride)
            return nn.Sequential(pad, convolution, nn.InstanceNorm2d(outputs, affine=True), nn.ReLU())

        self.down = nn.Sequential(layer(3, 16, 9), layer(16, 32, 3, 2), layer(32, 64, 3, 2))
        self.blocks = nn.ModuleList([nn.Sequential(layer(64, 64), layer(64, 64)) for _ in range(3)])
        up = [nn.Upsample(scale_factor=2), layer(64, 32), nn.Upsample(scale_factor=2), layer(32, 16)]
        self.up = nn.Sequential(*up, nn.ReflectionPad2d(4), nn.Conv2d(16, 3, 9))

    def forward(self, x):
        x = self.down(x)
        for block in self.blocks:
            x = x + block(x)
        return self.up(x)


class Cbam(nn.Module):
    """Woo et al., CBAM: Convolutional Block Attention Module, 2018, between two convolutions."""

    def __init__(self, channels=32):
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, 2, 1)
        hidden = channels // 8
        self.channels = nn.Sequential(nn.Conv2d(channels, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, channels, 1))
        self.pixels = nn.Conv2d(2, 1, 7, padding=3)
        self.last = nn.Conv2d(channels, 64, 3, 2, 1)
        self.classes = nn.Linear(64, 10)

    def forward(self, x):
        x = self.first(x).relu()
        x = x * torch.sigmoid(self.channels(x.mean((2, 3), True)) + self.channels(x.amax((2, 3), True)))
        x = x * torch.sigmoid(self.pixels(torch.cat([x.mean(1, True), x.amax(1, True)], 1)))
        return self.classes(self.last(x).relu().mean((2, 3)))


class CenterNet(nn.Module):
    """Zhou et al., Objects as Points, 2019: a small backbone, peaks of the heat map, the fifty greatest."""

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()]
        self.backbone = nn.Sequential(*layers, nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU())
        self.heat, self.sizes = nn.Conv2d(64, 10, 1), nn.Conv2d(64, 2, 1)

    def forward(self, x):
        x = self.backbone(x)
        heat = torch.sigmoid(self.heat(x))
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
        values, at = torch.topk(heat.flatten(1), 50)
        return values, at % 4096, self.sizes(x)


class TinyUNet(nn.Module):
    def __init__(self):
        super().__init__()
        layer = lambda i, o: nn.Sequential(*conv_bn(i, o, activation=nn.LeakyReLU))
        self.layers = nn.ModuleList([layer(3, 8), layer(8, 16), layer(16, 32), layer(48, 16), layer(24, 8)])
        self.mask = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        up = lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
        a = self.layers[0](x)
        b = self.layers[1](F.max_pool2d(a, 2))
        c = self.layers[2](F.max_pool2d(b, 2))
        d = self.layers[3](torch.cat([up(c), b], 1))
        return torch.sigmoid(self.mask(self.layers[4](torch.cat([up(d), a], 1))))


class Quantizer(nn.Module):
    """van den Oord et al., Neural Discrete Representation Learning, 2017."""

    def __init__(self):
        super().__init__()
        down = [nn.Conv2d(3, 64, 4, 2, 1), nn.SiLU(), nn.Conv2d(64, 128, 4, 2, 1), nn.SiLU()]
        self.encoder = nn.Sequential(*down, nn.Conv2d(128, 64, 3, 1, 1))
        self.codes = nn.Parameter(torch.randn(256, 64))
        self.decoder = nn.Sequential(nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(64, 3, 4, 2, 1))

    def forward(self, x):
        z = self.encoder(x)
        flat = z.permute(0, 2, 3, 1).reshape(-1, 64)
        nearest = self.codes[torch.cdist(flat, self.codes).argmin(1)]
        return self.decoder(nearest.reshape(z.shape[0], z.shape[2], z.shape[3], 64).permute(0, 3, 1, 2))


class WaveNet(nn.Module):
    """van den Oord et al., WaveNet, 2016; seven layers, the last thousand samples."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 32, 1)
        self.filters = nn.ModuleList([nn.Conv1d(32, 64, 2, dilation=2**k) for k in range(7)])
        self.residuals = nn.ModuleList([nn.Conv1d(32, 32, 1) for _ in range(7)])
        self.skips = nn.ModuleList([nn.Conv1d(32, 64, 1) for _ in range(7)])
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(64, 64, 1), nn.ReLU(), nn.Conv1d(64, 256, 1))

    def forward(self, x):
        x, total = self.first(x), 0
        for filters, residual, skip in zip(self.filters, self.residuals, self.skips):
            a, b = filters(x).chunk(2, 1)
            gated = torch.tanh(a) * torch.sigmoid(b)
            x = residual(gated) + x[:, :, -gated.shape[2] :]
            total = skip(gated)[:, :, -1000:] + total
        return self.last(total)


class TextCnn(nn.Module):
    """Kim, Convolutional Neural Networks for Sentence Classification, 2014."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(5000, 128)
        self.windows = nn.ModuleList([nn.Conv1d(128, 100, size) for size in (3, 4, 5)])
        self.classes = nn.Linear(300, 5)

    def forward(self, x):
        x = self.words(x).transpose(1, 2)
        return self.classes(torch.cat([window(x).relu().amax(2) for window in self.windows], 1))


class GraphNet(nn.Module):
    """Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, 2017."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 16)

    def forward(self, x, edges):
        return torch.log_softmax(edges @ self.second(torch.relu(edges @ self.first(x))), -1)


def perceptron(sizes, activation):
    layers = [[nn.Linear(a, b), activation()] for a, b in zip(sizes, sizes[1:])]
    return nn.Sequential(*sum(layers, [])[:-1])


def encoder(width, heads, hidden, layers, **how):
    layer = nn.TransformerEncoderLayer(width, heads, hidden, batch_first=True, **how)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)


NETWORKS = {
    "small_cnn": (small_cnn, [torch.zeros(1, 1, 28, 28)]),
    "small_cnn_b16": (small_cnn, [torch.zeros(16, 1, 28, 28)]),
    "dncnn": (DnCNN, [torch.zeros(1, 1, 96, 96)]),
    "fsrcnn": (fsrcnn, [torch.zeros(1, 1, 120, 160)]),
    "style": (Style, [torch.zeros(1, 3, 128, 128)]),
    "cbam": (Cbam, [torch.zeros(1, 3, 96, 96)]),
    "centernet": (CenterNet, [torch.zeros(1, 3, 256, 256)]),
    "unet_tiny": (TinyUNet, [torch.zeros(1, 3, 128, 128)]),
    "vq": (Quantizer, [torch.zeros(1, 3, 64, 64)]),
    "wavenet": (WaveNet, [torch.zeros(1, 1, 2000)]),
    "textcnn": (TextCnn, [torch.zeros(1, 64, dtype=torch.long)]),
    "gcn": (GraphNet, [torch.zeros(256, 64), torch.zeros(256, 256)]),
    "mlp_b1": (lambda: perceptron([20, 64, 64, 4], nn.Tanh), [torch.zeros(1, 20)]),
    "mlp_b256": (lambda: perceptron([20, 64, 64, 4], nn.Tanh), [torch.zeros(256, 20)]),
    "mlp_wide": (lambda: perceptron([1024, 4096, 1024], nn.GELU), [torch.zeros(1, 1024)]),
    "tf_layer": (lambda: encoder(256, 4, 512, 3, norm_first=True), [torch.zeros(1, 100, 256)]),
    "tf_layer_b8": (lambda: encoder(128, 8, 256, 2), [torch.zeros(8, 32, 128)]),
}
