"""Writes recurrent networks and a perceptron of docs/measurements.md, with seeded random weights in f32, as IR.

    python -m venv v && v/bin/pip install openvino==2026.4.1 numpy
    v/bin/python recurrent.py DIR

The product and its tests need neither these files nor Python.
"""

import pathlib
import sys

import numpy as np
import openvino as ov
from openvino import opset13 as op

RANDOM = np.random.default_rng(0)


def weights(*shape):
    return op.constant((RANDOM.standard_normal(shape) * shape[-1] ** -0.5).astype(np.float32))


def recurrent(kind, batch, steps=64, inputs=128, hidden=256, layers=2, outputs=40):
    """Layers of LSTM or GRU, and a dense layer over every step."""
    gates = {"lstm": 4, "gru": 3}[kind]
    x = op.parameter([batch, steps, inputs], np.float32)
    y = x
    for layer in range(layers):
        state = op.constant(np.zeros((batch, 1, hidden), np.float32))
        lengths = op.constant(np.full(batch, steps, np.int32))
        of_input = weights(1, gates * hidden, hidden if layer else inputs)
        of_state = weights(1, gates * hidden, hidden)
        if kind == "lstm":
            bias = weights(1, gates * hidden)
            y = op.lstm_sequence(y, state, state, lengths, of_input, of_state, bias, hidden, "forward")
        else:
            bias = weights(1, 4 * hidden)
            y = op.gru_sequence(
                y, state, lengths, of_input, of_state, bias, hidden, "forward", linear_before_reset=True
            )
        y = op.squeeze(y.output(0), op.constant(np.array([1])))
    return ov.Model([op.matmul(y, weights(outputs, hidden), False, True)], [x])


def iterated(kind, steps=64, inputs=128, hidden=256):
    """A cell in a TensorIterator."""
    x = op.parameter([1, steps, inputs], np.float32)
    one = op.parameter([1, 1, inputs], np.float32)
    states = [op.parameter([1, hidden], np.float32) for _ in range({"lstm": 2, "gru": 1}[kind])]
    axis = op.constant(np.int64(1))
    gates = {"lstm": 4, "gru": 3}[kind]
    operands = [weights(gates * hidden, inputs), weights(gates * hidden, hidden), weights(gates * hidden)]
    cell = {"lstm": op.lstm_cell, "gru": op.gru_cell}[kind](op.squeeze(one, axis), *states, *operands, hidden)
    results = [op.result(op.unsqueeze(cell.output(0), axis))]
    results += [op.result(cell.output(i)) for i in range(len(states))]
    loop = op.tensor_iterator()
    loop.set_body(ov.Model(results, [one, *states], "body"))
    loop.set_sliced_input(one, x.output(0), 0, 1, 1, -1, 1)
    for state, result in zip(states, results[1:]):
        zeros = op.constant(np.zeros((1, hidden), np.float32))
        loop.set_merged_input(state, zeros.output(0), result.output(0))
    return ov.Model([loop.get_concatenated_slices(results[0].output(0), 0, 1, 1, -1, 1)], [x])


def perceptron(*widths):
    x = op.parameter([1, widths[0]], np.float32)
    y = x
    for layer, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        y = op.add(op.matmul(y, weights(outputs, inputs), False, True), weights(1, outputs))
        if layer < len(widths) - 2:
            y = op.relu(y)
    return ov.Model([y], [x])


folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
models = {
    "gru": recurrent("gru", 1),
    "lstm4": recurrent("lstm", 4),
    "mlp": perceptron(784, 512, 512, 10),
    "lstm_iterated": iterated("lstm"),
    "gru_iterated": iterated("gru"),
}
for name, model in models.items():
    ov.save_model(model, folder / f"{name}.xml", compress_to_fp16=False)
