"""Layers that several networks of papers have."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def tokens(count, width, batch=1):
    return (torch.randn(batch, count, width),)


def dense(*sizes, act=nn.ReLU, last=False):
    layers = [layer for i, o in zip(sizes, sizes[1:]) for layer in (nn.Linear(i, o), act())]
    return nn.Sequential(*(layers if last else layers[:-1]))


class Attention(nn.Module):
    """Heads over `memory`, or over the tokens themselves."""

    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, memory=None):
        k, v = self.kv(x if memory is None else memory).chunk(2, -1)
        y = F.scaled_dot_product_attention(self.split(self.q(x)), self.split(k), self.split(v))
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, width, heads=4, cross=False):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own = Attention(width, heads)
        self.cross = Attention(width, heads) if cross else None
        self.dense = dense(width, 4 * width, width, act=nn.GELU)

    def forward(self, x, memory=None):
        x = x + self.own(self.norms[0](x))
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory)
        return x + self.dense(self.norms[2](x))


def ids(limit, *shape):
    return torch.randint(0, limit, shape)
