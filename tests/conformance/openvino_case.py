"""Writes case directories from OpenVINO models and says whether the CPU plugin gives the expected values."""

import json
import re
import xml.etree.ElementTree as ElementTree

import ml_dtypes
import numpy as np
import openvino as ov

# Without JIT fusion and in full precision: with the defaults, some answers of the plugin are wrong or rounded.
CPU_CONFIG = {"SNIPPETS_MODE": "DISABLE", "INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}

# numpy type that holds one value of the element types that numpy does not have, and the type that gives its meaning.
STORED = {
    "bf16": (np.uint16, ml_dtypes.bfloat16),
    "f8e4m3": (np.uint8, ml_dtypes.float8_e4m3fn),
    "f8e5m2": (np.uint8, ml_dtypes.float8_e5m2),
    "f8e8m0": (np.uint8, ml_dtypes.float8_e8m0fnu),
    "f4e2m1": (np.uint8, ml_dtypes.float4_e2m1fn),
    "i4": (np.int8, ml_dtypes.int4),
    "u4": (np.uint8, ml_dtypes.uint4),
    "u2": (np.uint8, ml_dtypes.uint2),
}
PLAIN = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "boolean": np.bool_}
PACKED_BITS = {"f4e2m1": 4, "i4": 4, "u4": 4, "u2": 2}
FLOATS = {"f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2", "f8e8m0", "f4e2m1"}
# Largest relative distance of neighbouring values.
UNIT = {"f16": 2.0**-10, "bf16": 2.0**-7}


def element_type(port):
    return port.get_element_type().get_type_name()


def stored(values, kind):
    """An array as it stands in an .npz file of a case: numpy's type of the same name, or bits."""
    values = np.asarray(values)
    if kind == "string":
        return np.array([str(v) for v in values.ravel()]).reshape(values.shape)
    if kind not in STORED:
        return values.astype(PLAIN[kind]) if values.dtype == object else values
    bits, meaning = STORED[kind]
    if kind in ("i4", "u4", "u2"):
        return values.astype(bits)
    return values.astype(meaning).view(bits) if values.dtype != bits else values


def tensor(values, port):
    """An OpenVINO tensor from a stored array."""
    kind = element_type(port)
    values = np.ascontiguousarray(values).reshape(values.shape)
    if kind not in STORED:
        return ov.Tensor(values)
    if kind not in PACKED_BITS:
        return ov.Tensor(values, ov.Shape(list(values.shape)), port.get_element_type())
    bits, per_byte = PACKED_BITS[kind], 8 // PACKED_BITS[kind]
    flat = values.ravel().view(np.uint8) & ((1 << bits) - 1)
    flat = np.concatenate([flat, np.zeros(-len(flat) % per_byte, np.uint8)]).reshape(-1, per_byte)
    packed = sum(flat[:, i] << (bits * i) for i in range(per_byte)).astype(np.uint8)
    result = ov.Tensor(port.get_element_type(), ov.Shape(list(values.shape)))
    result.data.view(np.uint8).ravel()[: len(packed)] = packed
    return result


def array(result):
    """A stored array from an OpenVINO tensor."""
    kind = result.element_type.get_type_name()
    if kind == "string":
        return np.array(result.str_data)
    if kind not in PACKED_BITS:
        values = np.array(result.data)
        return values.view(STORED[kind][0]) if kind in STORED else values
    bits, per_byte = PACKED_BITS[kind], 8 // PACKED_BITS[kind]
    packed = np.array(result.data).view(np.uint8).ravel()
    flat = np.stack([packed >> (bits * i) & ((1 << bits) - 1) for i in range(per_byte)], 1).ravel()
    flat = flat[: int(np.prod(result.shape))].reshape(list(result.shape))
    return np.where(flat >= 8, flat.astype(np.int8) - 16, flat).astype(np.int8) if kind == "i4" else flat


def numbers(values, kind):
    return values.view(STORED[kind][1]).astype(np.float64) if kind in STORED else values.astype(np.float64)


def tolerance(kinds, relative, absolute):
    """The given tolerance, but at least two units in the last place: references round after every operation."""
    return {"abs": absolute, "rel": max([relative] + [2 * UNIT[kind] for kind in kinds if kind in UNIT])}


def difference(got, expected, kinds, allowed):
    """Why outputs differ, or None."""
    for index, (a, b, kind) in enumerate(zip(got, expected, kinds)):
        if a.shape != b.shape:
            return f"out{index} has shape {list(a.shape)}, expected {list(b.shape)}"
        if a.dtype.kind != b.dtype.kind or (a.dtype.kind not in "US" and a.dtype != b.dtype):
            return f"out{index} has type {a.dtype}, expected {b.dtype}"
        if kind in FLOATS:
            x, y = numbers(a, kind), numbers(b, kind)
            with np.errstate(all="ignore"):
                close = np.abs(x - y) <= allowed["abs"] + allowed["rel"] * np.abs(y)
            wrong = ~(close | (x == y) | (np.isnan(x) & np.isnan(y)))
        else:
            x, y, wrong = a, b, a != b
        wrong = np.atleast_1d(wrong)
        if wrong.any():
            at = tuple(int(i[0]) for i in np.nonzero(wrong))
            x, y = np.atleast_1d(x)[at], np.atleast_1d(y)[at]
            return f"out{index}{list(at)} is {x}, expected {y} ({wrong.sum()} of {wrong.size} differ)"
    return None


def run_cpu(model, runs):
    """The outputs of several runs, between which state persists."""
    compiled = ov.Core().compile_model(model, "CPU", CPU_CONFIG)
    request = compiled.create_infer_request()
    results = []
    for inputs in runs:
        request.infer([tensor(v, p) for v, p in zip(inputs, compiled.inputs)])
        results.append([array(request.get_output_tensor(i)) for i in range(len(compiled.outputs))])
    return results


# What stands in OpenVINO's exceptions before the line that tells the reason.
PREAMBLE = r"(Exception from|Check '|While validating|src[/\\\\]|FrontEnd API failed|Model wasn't|Summary|-- .* with a message)"


def reason(error):
    """The telling line of an exception of OpenVINO, without addresses."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not re.match(PREAMBLE, line)]
    text = (telling or lines or ["no message"])[0].removeprefix("-- ")
    return re.sub(r"\s+", " ", re.sub(r"0x[0-9a-f]+", "0x..", text))[:160]


def rename(model):
    """Gives generated names local numbers, so that a file does not depend on models made before it."""
    for index, node in enumerate(model.get_ordered_ops()):
        if re.fullmatch(r"[A-Za-z0-9]+_\d+", node.get_friendly_name()):
            node.set_friendly_name(f"{node.get_type_name()}_{index}")


def operations(xml):
    """Type and opset of every layer, bodies included."""
    layers = ElementTree.parse(xml).getroot().iter("layer")
    return sorted({(layer.get("type"), layer.get("version")) for layer in layers})


def is_static(model):
    return not any(
        op.get_output_partial_shape(i).is_dynamic for op in model.get_ordered_ops() for i in range(op.get_output_size())
    )


def write(folder, model, inputs, expected, relative, absolute, bound=None):
    """Writes a case of a single run. `bound` is for results whose sizes depend on data."""
    options = {} if bound is None or is_static(model) else {"bound": str(bound)}
    return write_runs(folder, model, [inputs], [expected], relative, absolute, options=options)


def write_runs(folder, model, runs, expected, relative, absolute, half=False, options=None):
    """Writes a case and returns what is to be known of it; `expected` None takes the CPU plugin's results."""
    folder.mkdir(parents=True, exist_ok=True)
    rename(model)
    if half:
        ov.save_model(model, folder / "model.xml", compress_to_fp16=True)
    else:
        ov.serialize(model, folder / "model.xml", folder / "model.bin")
    model = ov.Core().read_model(folder / "model.xml")
    runs = [[stored(v, element_type(p)) for v, p in zip(inputs, model.inputs)] for inputs in runs]
    kinds = [element_type(p) for p in model.outputs]
    allowed = tolerance(kinds, relative, absolute)
    record = {"static": is_static(model), "layers": len(model.get_ops()), "operations": operations(folder / "model.xml"), "openvino": "agrees"}
    keep = lambda outputs: [stored(v, k) for v, k in zip(outputs, kinds)]
    try:
        got = run_cpu(model, runs)
    except Exception as error:
        if expected is None:
            raise
        record["openvino"] = f"fails: {reason(error)}"
    else:
        expected = expected or got
        differences = (difference(a, keep(b), kinds, allowed) for a, b in zip(got, expected))
        record["openvino"] = next(filter(None, differences), "agrees")
    options = options or {}
    savez(folder / "inputs.npz", "in", runs, "steps" in options)
    savez(folder / "expected.npz", "out", [keep(outputs) for outputs in expected], "steps" in options)
    (folder / "case.json").write_text(json.dumps({"tolerance": allowed, **options}) + "\n")
    return record


def savez(path, prefix, runs, steps):
    suffix = lambda run: f"_step{run}" if steps else ""
    np.savez(path, **{f"{prefix}{i}{suffix(run)}": v for run, arrays in enumerate(runs) for i, v in enumerate(arrays)})
