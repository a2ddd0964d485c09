"""Converts a network of torch to FOLDER/NAME.xml; the folder and the wanted names are the arguments of the script."""

import sys

import openvino as ov
import torch
import torch.nn as nn

FOLDER, WANTED = sys.argv[1], sys.argv[2:]


class Named(nn.Module):
    """A network with its inputs by name, and one of its results."""

    def __init__(self, net, names, result=0):
        super().__init__()
        self.net, self.names, self.result = net, names, result

    def forward(self, *inputs):
        results = self.net(**dict(zip(self.names, inputs)))
        return results if isinstance(results, torch.Tensor) else results[self.result]


class Segmentation(nn.Module):
    """A network of torchvision that gives results by name."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)["out"]


def save(name, make, *inputs):
    """A network that is made only if it is wanted; what cannot be converted is reported."""
    if WANTED and name not in WANTED:
        return
    torch.manual_seed(0)
    try:
        net = make().eval()
        with torch.no_grad():
            model = ov.convert_model(net, example_input=inputs if len(inputs) > 1 else inputs[0])
        model.reshape({i: list(x.shape) for i, x in enumerate(inputs)})
        ov.save_model(model, f"{FOLDER}/{name}.xml", compress_to_fp16=False)
        print(name, flush=True)
    except Exception as problem:
        print(name, "failed:", str(problem)[:200].replace("\n", " "), flush=True)
