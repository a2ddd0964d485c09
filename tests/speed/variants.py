"""Networks of 16-bit floats, and with sizes that are known at run time: FOLDER/*.xml and *.npz.

Needs torch, torchvision, timm and openvino: python variants.py FOLDER [NAME...]; then irc bench NAME.xml --inputs NAME.npz --against openvino
"""

import sys
from pathlib import Path

import numpy as np
import openvino as ov
import timm
import torch
import torch.nn as nn
import torchvision


def encoder():
    layer = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class Decoder(nn.Module):
    """A layer in which no token sees those behind it."""

    def __init__(self, width=256, heads=4):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.projections, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        parts = self.projections(self.first(x)).chunk(3, 2)
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in parts)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.dense(self.second(x))


def decoder():
    return nn.Sequential(Decoder(), Decoder())


class UNet(nn.Module):
    """One step down and one up."""

    def __init__(self):
        super().__init__()
        convolution = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU())
        self.first, self.low, self.last = convolution(3, 16), convolution(16, 32), convolution(48, 16)
        self.end = nn.Conv2d(16, 2, 1)

    def forward(self, x):
        x = self.first(x)
        low = self.low(torch.max_pool2d(x, 2))
        up = nn.functional.interpolate(low, scale_factor=2.0, mode="bilinear")
        return self.end(self.last(torch.cat([x, up], 1)))


def timm_model(name):
    return lambda: timm.create_model(name)


def lstm():
    return nn.LSTM(64, 128, batch_first=True)


IMAGE, TOKENS, STEPS = (1, 3, 224, 224), (1, 64, 256), (1, 20, 64)
ANY_IMAGE = "[1,3,32..256,32..256]"
# Network, shape of the data, and what the model says of the shape; None for a network of 16-bit floats.
VARIANTS = {
    "resnet18_half": (torchvision.models.resnet18, IMAGE, None),
    "mobilenetv3_half": (timm_model("mobilenetv3_small_100"), IMAGE, None),
    "deit_half": (timm_model("deit_tiny_patch16_224"), IMAGE, None),
    "encoder_half": (encoder, TOKENS, None),
    "lstm_half": (lstm, STEPS, None),
    "resnet18_images": (torchvision.models.resnet18, (2, 3, 224, 224), "[1..4,3,224,224]"),
    "resnet18_sizes": (torchvision.models.resnet18, IMAGE, ANY_IMAGE),
    "mobilenetv2_sizes": (torchvision.models.mobilenet_v2, IMAGE, ANY_IMAGE),
    "deit_images": (timm_model("deit_tiny_patch16_224"), (2, 3, 224, 224), "[1..4,3,224,224]"),
    "unet_sizes": (UNet, (1, 3, 128, 128), ANY_IMAGE),
    "encoder_tokens": (encoder, TOKENS, "[1,1..128,256]"),
    "encoder_sequences": (encoder, (4, 64, 256), "[1..8,64,256]"),
    "decoder_tokens": (decoder, (1, 300, 256), "[1,1..512,256]"),
    "lstm_steps": (lstm, STEPS, "[1,1..50,64]"),
}


def main():
    folder, names = Path(sys.argv[1]), sys.argv[2:] or VARIANTS
    for name in names:
        torch.manual_seed(0)
        build, shape, open_shape = VARIANTS[name]
        network, data = build().eval(), torch.randn(shape)
        if open_shape is None:
            network, data = network.half(), data.half()
        with torch.no_grad():
            model = ov.convert_model(network, example_input=data)
        model.reshape(ov.PartialShape(open_shape or list(shape)))
        ov.save_model(model, folder / f"{name}.xml", compress_to_fp16=False)
        np.savez(folder / f"{name}.npz", **{model.inputs[0].get_any_name(): data.numpy()})


if __name__ == "__main__":
    main()
