r"""Answers HTTP requests with an exported model. It needs TensorFlow alone.

bazel run //examples/serving:rest -- $PWD/served_model --port=8501
curl localhost:8501/v1/models/model:predict -d '{"inputs": {"tokens": [[15]]}}'

A request and its answer have the column format of TensorFlow Serving's REST
interface: a request has `inputs` and may have a `signature_name`, an answer has
`outputs` or an `error`.
"""

import argparse
import http.server
import json
import os

_PATH = "/v1/models/model:predict"
_MOST_BYTES = 1 << 24  # of a request
# Inputs that a request may leave out. The export has the same defaults, but a
# loaded signature does not.
_DEFAULTS = {
    "num_samples": 1,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "threshold": 0.5,
}


def main():
    """Serves until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of the exported model")
    parser.add_argument("--host", default="localhost", help="who may connect")
    parser.add_argument("--port", type=int, default=8501, help="0: any")
    arguments = parser.parse_args()
    signatures = load(arguments.model)
    address = arguments.host, arguments.port
    with http.server.ThreadingHTTPServer(
        address, handler(signatures)
    ) as server:
        print(f"listening on port {server.server_port}", flush=True)
        server.serve_forever()


def load(folder):
    """Returns the signatures of an export, by name."""
    import tensorflow as tf

    tf.load_op_library(os.path.join(folder, "assets.extra/_tf_hsm_ops.so"))
    model = tf.saved_model.load(folder)
    # A signature does not keep its model alive.
    return {name: (model, f) for name, f in model.signatures.items()}


def predict(signatures, request):
    """Returns the outputs of the signature that a request names, as lists.

    Raises:
      ValueError: the request is wrong; the message says how.
    """
    if not isinstance(request, dict):
        raise ValueError('the request must be an object with "inputs"')
    name = request.get("signature_name", "serving_default")
    if not isinstance(name, str) or name not in signatures:
        raise ValueError(
            f"the model has no signature {name!r}, but {sorted(signatures)}"
        )
    if "inputs" not in request:
        raise ValueError('the request has no "inputs"')
    _, signature = signatures[name]
    specs = signature.structured_input_signature[1]
    values = _DEFAULTS | _by_name(request["inputs"], specs)
    inputs = {
        name: _tensor(name, values[name], spec) for name, spec in specs.items()
    }
    outputs = {
        name: value.numpy().tolist()
        for name, value in signature(**inputs).items()
    }
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def _by_name(inputs, specs):
    """Returns the inputs of a request as a dictionary with all names."""
    required = sorted(specs.keys() - _DEFAULTS.keys())
    if not isinstance(inputs, dict):
        if len(required) != 1:
            raise ValueError(f'"inputs" must be an object with {required}')
        return {required[0]: inputs}
    for problem, names in {
        "unknown": inputs.keys() - specs.keys(),
        "missing": required - inputs.keys(),
    }.items():
        if names:
            raise ValueError(f"inputs are {problem}: {sorted(names)}")
    return inputs


def _tensor(name, value, spec):
    """Returns the value of an input as a tensor."""
    import tensorflow as tf

    try:
        # tf.constant drops the upper bits of numbers outside a smaller range.
        wide = tf.int64 if spec.dtype.is_integer else spec.dtype
        tensor = tf.constant(value, wide)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the input {name!r} must be a rectangular list of "
            f"{spec.dtype.name}: {error}"
        ) from error
    narrow = tf.cast(tensor, spec.dtype)
    if wide != spec.dtype and tf.reduce_any(tf.cast(narrow, wide) != tensor):
        raise ValueError(
            f"the input {name!r} has numbers outside the range of "
            f"{spec.dtype.name}"
        )
    if not spec.shape.is_compatible_with(tensor.shape):
        raise ValueError(
            f"the input {name!r} must have the shape {spec.shape}, but has "
            f"{tensor.shape}"
        )
    return narrow


def handler(signatures):
    """Returns the class that answers each connection."""

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 60  # seconds without a byte of the request

        def do_POST(self):
            if self.path != _PATH:
                return self._answer(404, {"error": f"post to {_PATH}"})
            try:
                size = int(self.headers.get("Content-Length", ""))
            except ValueError:
                error = "the header Content-Length must be a number of bytes"
                return self._answer(400, {"error": error})
            if not 0 <= size <= _MOST_BYTES:
                error = f"the body must have 0 to {_MOST_BYTES} bytes"
                return self._answer(413, {"error": f"{error}, not {size}"})
            try:
                request = json.loads(self.rfile.read(size))
                answer = {"outputs": predict(signatures, request)}
            except json.JSONDecodeError as error:
                answer = {"error": f"the body must be JSON: {error}"}
            except ValueError as error:
                answer = {"error": str(error)}
            except Exception as error:  # a bad request must not end the server
                answer = {"error": f"{type(error).__name__}: {error}"}
            return self._answer(400 if "error" in answer else 200, answer)

        def _answer(self, status, answer):
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


if __name__ == "__main__":
    main()
