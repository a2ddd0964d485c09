"""Times a model in an installed Python engine on request; started by `irc bench`.

Requests are lines on standard input, answers are lines on standard output: `run N` gives the nanoseconds of N runs.
"""

import gc
import json
import sys
import time

import numpy as np


def pick(job, arrays, names, dtype, shape, position):
    """The array for an input of the engine: by name, by a value fixed at compilation, or by position."""
    for key, known in job["names"].items():
        if names & set(known):
            return arrays[key]
    for name, numbers in job["values"].items():
        if name in names:
            return np.array(numbers, dtype).reshape(shape)
    if f"in{position}" in arrays and not job["values"]:
        return arrays[f"in{position}"]
    raise KeyError(f"no input for {sorted(names)}")


def openvino(job, arrays):
    import openvino as ov

    core = ov.Core()
    model = core.read_model(job["model"], job["bin"]) if job["bin"] else core.read_model(job["model"])
    given = []
    for position, port in enumerate(model.inputs):
        names = set(port.get_names()) | {port.get_node().get_friendly_name()}
        kind = port.get_element_type()
        shape = [d.get_length() if d.is_static else -1 for d in port.get_partial_shape()]
        array = pick(job, arrays, names, kind.to_dtype(), shape, position)
        given.append((port, ov.Tensor(np.ascontiguousarray(array), ov.Shape(array.shape), kind)))
    if any(port.get_partial_shape().is_dynamic for port, _ in given):
        model.reshape({port: list(tensor.shape) for port, tensor in given})
    # f32 throughout: data of products with compressed weights would be rounded to 8 bits.
    settings = {"INFERENCE_NUM_THREADS": job["threads"], "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
    request = core.compile_model(model, "CPU", settings).create_infer_request()
    for position, (_, tensor) in enumerate(given):
        request.set_input_tensor(position, tensor)
    states = request.query_state()

    def run():
        for state in states:
            state.reset()
        start = time.perf_counter_ns()
        request.infer()
        return time.perf_counter_ns() - start

    return run, "OpenVINO " + ov.__version__.split("-")[0]


def onnxruntime(job, arrays):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(job["onnx"], options, providers=["CPUExecutionProvider"])
    feed = {
        port.name: pick(job, arrays, {port.name}, np.int64, port.shape, position)
        for position, port in enumerate(session.get_inputs())
    }

    def run():
        start = time.perf_counter_ns()
        session.run(None, feed)
        return time.perf_counter_ns() - start

    return run, "ONNX Runtime " + ort.__version__


def main():
    job = json.loads(sys.argv[1])
    arrays = dict(np.load(job["inputs"]))
    run, name = {"openvino": openvino, "onnxruntime": onnxruntime}[job["engine"]](job, arrays)
    run()
    print("ready", name, flush=True)
    gc.disable()
    for line in sys.stdin:
        print("run", *(run() for _ in range(int(line.split()[1]))), flush=True)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        print("error", type(error).__name__ + ":", str(error).replace("\n", " ")[:500], flush=True)
        sys.exit(1)
