"""How an architecture becomes a case, where it is more than a module with inputs of fixed sizes."""

from dataclasses import dataclass, field


@dataclass
class Recipe:
    """A module, example inputs, and what is done on the way to the file."""

    module: object
    inputs: list
    # Converted through an ONNX file instead of the module itself.
    onnx: bool = False
    # For some inputs by index, sizes as the option `--shape` takes them: `1,1..16` leaves the second size open.
    shapes: dict = field(default_factory=dict)
    # Inputs of further runs, whose sizes may differ: one list per run, replacing `inputs`.
    runs: list = field(default_factory=list)
    # Inputs that become state, with the outputs that are stored in it; `runs` then have no such inputs.
    state: dict = field(default_factory=dict)
    # Activations and weights of convolutions and matrix products go through FakeQuantize of 256 levels.
    quantised: bool = False
    # More options of the case, like {"bound": ["in0_0=8"]}.
    options: dict = field(default_factory=dict)
