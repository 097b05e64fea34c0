"""Exports in a process of their own, to the bit."""

import subprocess
import sys

import keras
import numpy as np
import tensorflow as tf

import tf_hsm
from tests.support import models
from tests.support.serving_models import (
    OPTIONS,
    K,
    adaptive_form,
    label_tree_form,
    make_inputs,
)
from tf_hsm import serving
from tf_hsm.layers import AdaptiveSoftmax, LabelTree

THRESHOLD = 0.5

# Arguments: a folder with exports and data.npz, and a file for the answers.
SERVER = """
import os, sys
import numpy as np
import tensorflow as tf

folder, results = sys.argv[1:]
exports = sorted(x.path for x in os.scandir(folder) if x.is_dir())
tf.load_op_library(exports[0] + "/assets.extra/_tf_hsm_ops.so")
data = {k: tf.constant(v) for k, v in np.load(folder + "/data.npz").items()}
tokens, more_of = data.pop("tokens"), {
    "serving_default": {},
    "log_prob": {"classes": data.pop("classes")},
    "labels": {"threshold": data.pop("threshold")},
    "sample": data,
}
answers = {}
for export in exports:
    model = tf.saved_model.load(export)
    for name, signature in model.signatures.items():
        more = more_of[name]
        inputs, = set(signature.structured_input_signature[1]) - set(more)
        for output, value in signature(**{inputs: tokens}, **more).items():
            key = "/".join([os.path.basename(export), name, output])
            answers[key] = value.numpy()
assert "tf_hsm" not in sys.modules
np.savez(results, **answers)
"""


def run_python(program, *arguments):
    """Runs a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def expected_answers(below, head, tokens, classes):
    """What the head answers for `below(tokens)`, by signature and output."""
    # As in an export: TensorFlow may fuse ops below the head, in graphs only.
    hidden = tf.function(below, autograph=False)(tokens)
    found = {
        "serving_default": head.top_k(hidden, K)._asdict(),
        "log_prob": {"log_probs": head.log_prob(classes, hidden)},
    }
    if isinstance(head, LabelTree):
        best = head.top_k(hidden, K, threshold=THRESHOLD)
        found["labels"] = best._asdict()
    else:
        found["sample"] = {"classes": head.sample(hidden, **OPTIONS)}
    return tf.nest.map_structure(lambda x: x.numpy(), found)


def tied_form():
    """A trained one, whose head embeds and has an optimizer of its own."""
    head = AdaptiveSoftmax(
        models.NUM_CLASSES,
        cutoffs=[5, 14],
        div_value=2,
        width=models.WIDTH,
        optimizer="adagrad",
    )
    tokens = keras.Input([models.STEPS], dtype="int32", name="inputs")
    hidden = keras.layers.Dense(models.WIDTH)(head(tokens, embed=True))
    model = keras.Model(tokens, head(hidden))
    model.compile("sgd", loss=head.loss, run_eagerly=True)
    model.fit(*models.make_data(), verbose=0)
    return model, None, keras.Model(tokens, hidden)


def make_models():
    """By name: a model to export, its head or None, the model below it."""
    made = {}
    grown = tf_hsm.grow(
        models.compile_form(
            node_labels=True,
            several_labels=True,
            label_smoothing=0.1,
            dtype="mixed_bfloat16",
        ),
        models.TREE.grow(2),
    )
    for name, model in {
        "in_place": models.sequential(
            *models.hidden_layers(dtype="bfloat16"),
            models.make_head(optimizer="sgd", dtype="bfloat16"),
        ),
        "adaptive": adaptive_form(),
        "sampled": models.compile_form(make=models.sampled_head),
        "label_tree": label_tree_form(optimizer="sgd", dtype="bfloat16"),
        "grown": grown,
    }.items():
        made[name] = (model, None, models.hidden_model(model))
    made["tied_in_place"] = tied_form()
    model = models.endpoint_form(
        use_bias=False, mask_zero=False, dtype="float64"
    )
    head = models.head_of(model)
    below = keras.Model(model.inputs[0], head.input[0])
    return {**made, "endpoint": (below, head, below)}


def test_fresh_process(tmp_path):
    """A process that imports only TensorFlow answers like the layers here."""
    tokens, classes = make_inputs()
    np.savez(
        tmp_path / "data.npz",
        tokens=tokens,
        classes=classes,
        threshold=THRESHOLD,
        **OPTIONS,
    )
    expected = {}
    for name, (model, head, below) in make_models().items():
        serving.export(model, tmp_path / name, head=head, k=K)
        head = head or models.head_of(model)
        answers = expected_answers(below, head, tokens, classes)
        for signature, outputs in answers.items():
            for output, value in outputs.items():
                expected[f"{name}/{signature}/{output}"] = value
    run_python(SERVER, tmp_path, tmp_path / "answers.npz")
    answers = dict(np.load(tmp_path / "answers.npz"))
    assert answers.keys() == expected.keys()
    for name, value in expected.items():
        assert answers[name].dtype == value.dtype
        np.testing.assert_array_equal(answers[name], value, err_msg=name)
    found = expected["label_tree/labels/classes"] >= 0
    assert found.any() and not found.all()
