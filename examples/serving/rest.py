r"""Answers HTTP requests with an exported model. It needs TensorFlow alone.

bazel run //examples/serving:rest -- $PWD/served_model --port=8501
curl localhost:8501/v1/models/model:predict -d '{"inputs": {"tokens": [[15]]}}'

A request and its answer have the column format of TensorFlow Serving's REST
interface: a `signature_name` and `inputs` in, `outputs` or an `error` out.
"""

import argparse
import http.server
import json
import os

_PATH = "/v1/models/model:predict"
_MOST_BYTES = 1 << 24  # of a request
# What a request may leave out.
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
    """Returns the outputs of the signature that a request names, as lists."""
    import tensorflow as tf

    _, signature = signatures[request.get("signature_name", "serving_default")]
    values = _DEFAULTS | request["inputs"]
    specs = signature.structured_input_signature[1]
    for problem, names in {
        "unknown": request["inputs"].keys() - specs.keys(),
        "missing": specs.keys() - values.keys(),
    }.items():
        if names:
            raise ValueError(f"inputs are {problem}: {sorted(names)}")
    inputs = {
        name: tf.constant(values[name], spec.dtype)
        for name, spec in specs.items()
    }
    outputs = {
        name: value.numpy().tolist()
        for name, value in signature(**inputs).items()
    }
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


def handler(signatures):
    """Returns the class that answers each connection."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            size = int(self.headers.get("Content-Length", 0))
            if self.path != _PATH or size > _MOST_BYTES:
                return self._answer(404, {"error": f"post to {_PATH}"})
            try:
                request = json.loads(self.rfile.read(size))
                answer = {"outputs": predict(signatures, request)}
            except Exception as error:  # a bad request must not end the server
                name = type(error).__name__
                return self._answer(400, {"error": f"{name}: {error}"})
            return self._answer(200, answer)

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
