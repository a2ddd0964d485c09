"""The list of architectures: functions that give a module and example inputs, small enough to build quickly."""

import torch

MODELS = {}


def model(make):
    MODELS[make.__name__] = make
    return make


def image(size=64, batch=1, channels=3):
    return [torch.rand(batch, channels, size, size) * 2 - 1]


def tokens(length=12, vocabulary=100, batch=1):
    return torch.randint(1, vocabulary, (batch, length))
