"""The programs of examples/serving: export, client, and the server in C++."""

import http.client
import inspect
import json
import pathlib
import re
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from examples.language_model import checkpoint, recurrent, settings
from examples.language_model import model as model_lib
from examples.serving import export, rest
from tf_hsm import serving

FOLDER = pathlib.Path("examples/serving")
CLASSES = 2_000
WORDS = ("<unk>", "import", "os", "\n", *(f"word{i}" for i in range(50)))


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    """The toy of export.py, exported."""
    path = tmp_path_factory.mktemp("toy") / "1"
    serving.export(export.toy(CLASSES), path, k=3)
    return path


def export_language_model(folder, **changes):
    """A language model that has learned nothing, and where it was exported."""
    small = {"tree": "huffman", "batch_size": 3, "steps": 4}
    small |= {"units": (8, 8)}
    chosen = settings.Settings(**{**small, **changes})
    text = types.SimpleNamespace(words=WORDS, counts=np.ones(len(WORDS), int))
    model = model_lib.build(chosen, text, learning_rate=0.1)
    run = checkpoint.Run(chosen, "", WORDS, "code", "<eof>", [])
    checkpoint.save(folder, model, run)
    export.export_run(folder, str(folder / "exported"), 5)
    return model, folder / "exported"


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """That of the default flags, but small."""
    return export_language_model(tmp_path_factory.mktemp("language_model"))


def run_program(*command):
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=120
    )


def ask(*arguments):
    """What the client prints: pairs of a probability in percent and a class."""
    done = run_program(sys.executable, FOLDER / "client.py", *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    return re.findall(r"^ *([0-9.]+)%  (.*)$", done.stdout, re.MULTILINE)


def test_client_with_a_vocabulary(language_model):
    """Words go in and words come out; unknown ones are <unk>."""
    model, path = language_model
    answer = ask(path, "import", "never_seen")
    body = export.stateless(model_lib.body(model))
    hidden = body(tf.constant([[1, 0]]))[0, -1]
    best = model.get_layer("head").top_k(hidden, 5)
    assert [word for _, word in answer] == [
        repr(WORDS[number]) for number in best.classes
    ]
    assert [float(p) for p, _ in answer] == pytest.approx(
        100 * np.exp(best.log_probs), abs=0.01
    )


@pytest.fixture(scope="module")
def post(toy):
    """Posts a request to rest.py: returns the status and the answer."""
    command = [sys.executable, FOLDER / "rest.py", toy, "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        port = int(server.stdout.readline().split()[-1])

        def post(body):
            connection = http.client.HTTPConnection(
                "localhost", port, timeout=20
            )
            connection.request("POST", "/v1/models/model:predict", body)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

        yield post
        server.terminate()


def test_rest_server(toy, post):
    """The server answers as the SavedModel does."""
    loaded = tf.saved_model.load(toy)
    tokens = [[3, 14, 15], [1, 2, 3]]
    expected = loaded.signatures["serving_default"](tokens=tf.constant(tokens))
    # A signature with one input also takes the value alone.
    for inputs in ({"tokens": tokens}, tokens):
        status, answer = post(json.dumps({"inputs": inputs}))
        assert status == 200
        for name, values in expected.items():
            np.testing.assert_array_equal(answer["outputs"][name], values)

    # Another signature; the request leaves out inputs with a default.
    inputs = {"tokens": tokens, "seed": 7}
    request = {"signature_name": "sample", "inputs": inputs}
    drawn = loaded.sample(tf.constant(tokens), tf.constant(7, tf.int64))
    answer = {"outputs": drawn["classes"].numpy().tolist()}
    assert post(json.dumps(request)) == (200, answer)


@pytest.mark.parametrize(
    ("request_", "error"),
    (
        ({"instances": [[1]]}, 'the request has no "inputs"'),
        (
            {"signature_name": "topk", "inputs": [[1]]},
            "the model has no signature 'topk', but ",
        ),
        (
            {"inputs": [1, 2, 3]},
            "the input 'tokens' must have the shape (None, None), but has (3,)",
        ),
        (
            {"inputs": [[1, 2**40]]},
            "the input 'tokens' has numbers outside the range of int32",
        ),
    ),
)
def test_bad_rest_requests(post, request_, error):
    status, answer = post(json.dumps(request_))
    assert status == 400
    assert answer["error"].startswith(error)


def test_rest_has_the_defaults_of_the_export():
    found = {}
    for function in serving._functions(None, None, 1):
        for name, parameter in inspect.signature(function).parameters.items():
            if isinstance(parameter.default, tf.Tensor):
                found[name] = parameter.default.numpy()
    assert found == rest._DEFAULTS


@pytest.mark.parametrize("changes", ({}, {"body": "transformer", "units": 8}))
def test_requests_do_not_touch_each_other(tmp_path, language_model, changes):
    """Each begins at the start of a text, where the trained model began."""
    model, path = (
        export_language_model(tmp_path, **changes)
        if changes
        else language_model
    )
    loaded = tf.saved_model.load(path)
    tokens = np.random.default_rng(0).integers(len(WORDS), size=[3, 4])
    recurrent.reset_states(model)
    hidden = model_lib.body(model)(tokens)
    recurrent.reset_states(model)
    expected = model.get_layer("head").top_k(hidden, 5)
    for _ in range(2):
        answer = loaded.signatures["serving_default"](
            tokens=tf.constant(tokens, tf.int32)
        )
        np.testing.assert_allclose(
            answer["log_probs"], expected.log_probs, rtol=1e-5
        )


def test_server(toy):
    """The C++ program prints what the toy has learned."""
    done = run_program(FOLDER / "serve", toy, 3, 14, 15)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = re.findall(r"^log p = (-[\d.]+)  class (\d+)$", done.stdout, re.M)
    assert len(answer) == 3
    assert answer[0][1] == str(15 * 997 % CLASSES)
    assert float(answer[0][0]) > np.log(0.5)
