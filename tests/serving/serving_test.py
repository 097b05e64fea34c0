"""tf_hsm.serving: an export answers like the head, to the bit."""

import os
import pathlib
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    TREE,
    WIDTH,
    compile_form,
    endpoint_form,
    head_of,
    hidden_layers,
    hidden_model,
    make_data,
    make_head,
    sampled_head,
    sequential,
)
from tf_hsm import serving
from tf_hsm.layers import AdaptiveSoftmax, LabelTree

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/export"
LIBRARY = os.path.join("assets.extra", "_tf_hsm_ops.so")
K = 4
THRESHOLD = 0.5
OPTIONS = {
    "seed": 7,
    "num_samples": 5,
    "temperature": 0.7,
    "top_k": 6,
    "top_p": 0.9,
}

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

# Arguments: a .keras file, tokens, and a file for the answers.
LOADER = """
import sys
import keras
import numpy as np
import tf_hsm

path, tokens, results = sys.argv[1:]
model, tokens = keras.models.load_model(path), np.load(tokens)
hidden = keras.Model(model.inputs, model.layers[-1].input)
best = model.layers[-1].top_k(hidden.predict(tokens, verbose=0), 4)
np.savez(results, *best, model.predict(tokens, verbose=0))
"""


def run_python(program, *arguments):
    """Runs a program in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def make_inputs():
    """Tokens [B, T], and some classes [B, T, C] for each."""
    tokens, _ = make_data()
    rng = np.random.default_rng(0)
    classes = rng.integers(NUM_CLASSES, size=[*tokens.shape, 3])
    return tf.constant(tokens, tf.int32), tf.constant(classes)


def expected_answers(below, head, tokens, classes):
    """What the head answers for `below(tokens)`, by signature and output."""

    # As in an export: TensorFlow may fuse ops below the head, in graphs only.
    @tf.function(autograph=False)
    def answers(tokens, classes):
        hidden = below(tokens)
        found = {
            "serving_default": head.top_k(hidden, K)._asdict(),
            "log_prob": {"log_probs": head.log_prob(classes, hidden)},
        }
        if isinstance(head, LabelTree):
            best = head.top_k(hidden, K, threshold=THRESHOLD)
            return {**found, "labels": best._asdict()}
        return {**found, "sample": {"classes": head.sample(hidden, **OPTIONS)}}

    return tf.nest.map_structure(lambda x: x.numpy(), answers(tokens, classes))


def adaptive_form():
    """A model of a class order of its own, with a tree for a tail."""
    return sequential(
        *hidden_layers(),
        AdaptiveSoftmax(
            NUM_CLASSES,
            [11],
            div_value=2,
            counts=np.arange(NUM_CLASSES) * 7 % 11,
            tail="two_level",
        ),
    )


def tied_form():
    """A trained one, whose head embeds and has an optimizer of its own."""
    head = AdaptiveSoftmax(
        NUM_CLASSES, [5, 14], 2, width=WIDTH, optimizer="adagrad"
    )
    tokens = keras.Input([STEPS], dtype="int32", name="inputs")
    hidden = keras.layers.Dense(WIDTH)(head(tokens, embed=True))
    model = keras.Model(tokens, head(hidden))
    model.compile("sgd", loss=head.loss)
    model.fit(*make_data(), verbose=0)
    return model, None, keras.Model(tokens, hidden)


def label_tree_form(**options):
    """A label tree with many labels above a threshold, and with few."""
    head = LabelTree(
        TREE,
        kernel_initializer="random_normal",
        bias_initializer=keras.initializers.RandomNormal(1.0, 0.5, seed=2),
        **options,
    )
    return sequential(*hidden_layers(dtype=options.get("dtype")), head)


def models():
    """By name: a model to export, its head or None, the model below it."""
    made = {}
    for name, options in {
        "without_bias": {"use_bias": False, "mask_zero": False},
        "bfloat16": {"dtype": "bfloat16"},
        "mixed_bfloat16": {"dtype": "mixed_bfloat16"},
        "float64": {"dtype": "float64"},
        "in_place": {"optimizer": "sgd"},
    }.items():
        model = compile_form(**options)
        made[name] = (model, None, hidden_model(model))
    for name, model in {
        "adaptive": adaptive_form(),
        "sampled": compile_form(make=sampled_head),
        "label_tree": label_tree_form(),
        "label_tree_in_place": label_tree_form(
            optimizer="sgd", dtype="bfloat16"
        ),
    }.items():
        made[name] = (model, None, hidden_model(model))
    made["tied_in_place"] = tied_form()
    grown = tf_hsm.grow(
        compile_form(
            node_labels=True, several_labels=True, label_smoothing=0.1
        ),
        TREE.grow(2),
    )
    made["grown"] = (grown, None, hidden_model(grown))
    model = endpoint_form()
    head = head_of(model)
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
    for name, (model, head, below) in models().items():
        serving.export(model, tmp_path / name, head, K)
        head = head or head_of(model)
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


def test_keras_file_in_a_fresh_process(tmp_path):
    """`.keras` files need an import of tf_hsm and nothing else."""
    tokens, _ = make_inputs()
    model = compile_form()
    model.save(tmp_path / "model.keras")
    np.save(tmp_path / "tokens.npy", tokens)
    names = ("model.keras", "tokens.npy", "answers.npz")
    run_python(LOADER, *(tmp_path / name for name in names))
    hidden = hidden_model(model).predict(tokens, verbose=0)
    best = head_of(model).top_k(hidden, K)
    expected = (*best, model.predict(tokens, verbose=0))
    answers = np.load(tmp_path / "answers.npz")
    for answer, value in zip(answers.values(), expected, strict=True):
        np.testing.assert_array_equal(answer, value)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model, where it was exported, and what came from loading that."""
    model = compile_form()
    path = tmp_path_factory.mktemp("exported") / "1"
    serving.export(model, path, k=K)
    return model, path, tf.saved_model.load(path)


def test_signatures(exported):
    """Inputs have the model's names and any batch size."""
    _, _, loaded = exported
    tokens = tf.TensorSpec([None, STEPS], tf.int32, "inputs")
    log_probs = tf.TensorSpec([None, STEPS, None], tf.float32, "log_probs")
    classes = tf.TensorSpec([None, STEPS, None], tf.int64, "classes")
    best = [
        tf.TensorSpec([None, STEPS, K], spec.dtype, spec.name)
        for spec in (log_probs, classes)
    ]
    scalars = [
        tf.TensorSpec([], tf.as_dtype(np.array(value).dtype), name)
        for name, value in OPTIONS.items()
    ]
    assert set(loaded.signatures) == {"serving_default", "log_prob", "sample"}
    for name, inputs, outputs in (
        ("serving_default", [tokens], best),
        ("log_prob", [tokens, classes], [log_probs]),
        ("sample", [tokens, *scalars], [classes]),
    ):
        signature = loaded.signatures[name]
        by_name = {spec.name: spec for spec in inputs}
        assert signature.structured_input_signature == ((), by_name)
        assert signature.structured_outputs == {x.name: x for x in outputs}


def test_batches_of_any_size(exported):
    """Each text has its answer, whatever comes with it; none has none."""
    _, _, loaded = exported
    tokens, _ = make_inputs()
    answer = loaded.signatures["serving_default"]
    together = answer(tokens)
    for size in (0, 1, 3):
        alone = answer(tokens[:size])
        for name, value in together.items():
            np.testing.assert_array_equal(alone[name], value[:size])


def test_defaults_of_sample(exported):
    """A request needs a seed; the rest is as in `layer.sample`."""
    model, path, loaded = exported
    tokens, _ = make_inputs()
    hidden = hidden_model(model)(tokens)
    expected = head_of(model).sample(hidden, 1, seed=3)
    np.testing.assert_array_equal(
        loaded.sample(tokens, tf.constant(3, tf.int64))["classes"], expected
    )
    # As TensorFlow's C API and its server go about it.
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        sample = graph.signature_def["sample"]
        assert set(sample.defaults) == set(OPTIONS) - {"seed"}
        answer = session.run(
            sample.outputs["classes"].name,
            {
                sample.inputs["inputs"].name: tokens.numpy(),
                sample.inputs["seed"].name: 3,
            },
        )
    np.testing.assert_array_equal(answer, expected)


def test_two_exports_are_the_same(exported, tmp_path):
    """The same signatures and, in some order, the same variables."""
    model, path, loaded = exported
    serving.export(model, tmp_path / "2", k=K)
    other = tf.saved_model.load(tmp_path / "2")
    for name, signature in loaded.signatures.items():
        its = other.signatures[name]
        for attribute in ("structured_input_signature", "structured_outputs"):
            assert getattr(its, attribute) == getattr(signature, attribute)
    assert stored_variables(tmp_path / "2") == stored_variables(path)


def test_signatures_of_an_adaptive_softmax(exported, tmp_path):
    """They are those of a hierarchical one; none of the options is fixed."""
    model = adaptive_form()
    serving.export(model, tmp_path / "1", k=K)
    loaded = tf.saved_model.load(tmp_path / "1")
    for name, signature in exported[2].signatures.items():
        its = loaded.signatures[name]
        for attribute in ("structured_input_signature", "structured_outputs"):
            assert getattr(its, attribute) == getattr(signature, attribute)
    tokens, _ = make_inputs()
    hidden, head = hidden_model(model)(tokens), head_of(model)
    for options in (
        {},
        {"num_samples": 3, "temperature": 0.5},
        {"top_k": NUM_CLASSES},
        {"top_k": 5, "num_samples": 3},
        {"top_p": 0.3},
    ):
        given = {
            k: tf.constant(v, tf.int64 if isinstance(v, int) else tf.float64)
            for k, v in options.items()
        }
        drawn = loaded.sample(tokens, tf.constant(3, tf.int64), **given)
        expected = head.sample(
            hidden, **{"num_samples": 1, "seed": 3, **options}
        )
        np.testing.assert_array_equal(drawn["classes"], expected)
    seed = tf.constant(3, tf.int64)
    for name, value in {
        "top_k": tf.constant(31, tf.int64),
        "top_p": tf.constant(1.5, tf.float64),
        "temperature": tf.constant(-1.0, tf.float64),
    }.items():
        with pytest.raises(tf.errors.InvalidArgumentError):
            loaded.sample(tokens, seed, **{name: value})


def test_signatures_of_a_label_tree(exported, tmp_path):
    """Labels above a threshold stand where others have draws."""
    model = label_tree_form()
    serving.export(model, tmp_path / "1", k=K)
    loaded = tf.saved_model.load(tmp_path / "1")
    assert set(loaded.signatures) == {"serving_default", "log_prob", "labels"}
    for name in ("serving_default", "log_prob"):
        its, signature = loaded.signatures[name], exported[2].signatures[name]
        for attribute in ("structured_input_signature", "structured_outputs"):
            assert getattr(its, attribute) == getattr(signature, attribute)
    tokens, _ = make_inputs()
    hidden, head = hidden_model(model)(tokens), head_of(model)
    for arguments, threshold in (
        ((), 0.5),
        ((tf.constant(0.3, tf.float64),), 0.3),
        ((tf.constant(1.0, tf.float64),), 1.0),
        ((tf.constant(0.0, tf.float64),), 0.0),
    ):
        found = loaded.labels(tokens, *arguments)
        expected = head.top_k(hidden, K, threshold)
        np.testing.assert_array_equal(found["classes"], expected.classes)
        np.testing.assert_allclose(
            found["log_probs"], expected.log_probs, rtol=1e-6
        )


def stored_variables(path):
    """Type, shape and bytes of each array."""
    reader = tf.train.load_checkpoint(path / "variables" / "variables")
    names = set(reader.get_variable_to_dtype_map())
    arrays = map(reader.get_tensor, names - {"_CHECKPOINTABLE_OBJECT_GRAPH"})
    return sorted((str(x.dtype), x.shape, x.tobytes()) for x in arrays)


def test_every_array_is_stored_once(tmp_path):
    """In the files of the variables: the graph does not grow with the tree."""
    tree = tf_hsm.Tree.balanced(50_000, 3)
    model = keras.Sequential([keras.Input([WIDTH]), make_head(tree)])
    serving.export(model, tmp_path / "1")
    assert (tmp_path / "1" / "saved_model.pb").stat().st_size < 100_000
    arrays = (
        *model.get_weights(),
        tree.group_offsets,
        tree.group_parents,
        tree.class_rows,
        tree.row_groups,
        tree.row_groups,  # in the place of what is below each row
        tree.class_ranks,
    )
    (data,) = (tmp_path / "1" / "variables").glob("variables.data*")
    assert data.stat().st_size < 10_000 + sum(array.nbytes for array in arrays)


def test_a_hundred_callers(exported):
    """Threads that call one model at once get what each would get alone."""
    _, _, loaded = exported
    tokens, classes = make_inputs()
    options = {k: tf.constant(np.array(v)) for k, v in OPTIONS.items()}
    calls = [
        (loaded.signatures["serving_default"], {}, slice(0, 1)),
        (loaded.signatures["log_prob"], {"classes": classes}, slice(0, 22)),
        (loaded.signatures["sample"], options, slice(5, 9)),
    ]

    def call(signature, more, part):
        more = {k: v[part] if k == "classes" else v for k, v in more.items()}
        return signature(inputs=tokens[part], **more)

    expected = [call(*arguments) for arguments in calls]
    same = []

    def caller(first):
        for i in range(first, first + 3):
            answer = call(*calls[i % 3])
            for name, value in expected[i % 3].items():
                same.append(np.array_equal(answer[name], value))

    threads = [threading.Thread(target=caller, args=[i]) for i in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(same) == 400 and all(same)


def test_models_with_several_inputs(tmp_path):
    """Inputs keep their names, in whatever structure the model takes them."""
    inputs = {
        "left": keras.Input([STEPS, WIDTH], name="left"),
        "bias": keras.Input([STEPS, WIDTH], name="bias", dtype="float16"),
        "words": keras.Input([STEPS], name="words", dtype="string"),
    }
    lookup = keras.layers.StringLookup(vocabulary=["a", "b"], output_mode="int")
    embed = keras.layers.Embedding(3, WIDTH)
    hidden = inputs["left"] + embed(lookup(inputs["words"]))
    hidden = hidden * keras.ops.cast(inputs["bias"], "float32")
    head = make_head()
    model = keras.Model(inputs, head(hidden))
    serving.export(model, tmp_path / "1", k=K)
    loaded = tf.saved_model.load(tmp_path / "1")
    values = {
        "left": tf.random.stateless_normal([3, STEPS, WIDTH], [0, 1]),
        "bias": tf.ones([3, STEPS, WIDTH], tf.float16),
        "words": tf.constant([["a", "b", "c", "", "a"]] * 3),
    }
    answer = loaded.signatures["serving_default"](**values)
    expected = head.top_k(keras.Model(inputs, hidden)(values), K)
    np.testing.assert_allclose(answer["log_probs"], expected.log_probs, 1e-6)
    np.testing.assert_array_equal(answer["classes"], expected.classes)


def test_golden_export():
    """What an earlier version exported still gives the same answers."""
    loaded = tf.saved_model.load(GOLDEN / "model")
    data = {k: tf.constant(v) for k, v in np.load(GOLDEN / "data.npz").items()}
    best = loaded.signatures["serving_default"](tokens=data["tokens"])
    np.testing.assert_array_equal(best["classes"], data["best_classes"])
    np.testing.assert_allclose(best["log_probs"], data["best_log_probs"], 1e-5)
    given = loaded.signatures["log_prob"](
        tokens=data["tokens"], classes=data["classes"]
    )
    np.testing.assert_allclose(given["log_probs"], data["log_probs"], 1e-5)
    drawn = loaded.signatures["sample"](
        tokens=data["tokens"], **{name: data[name] for name in OPTIONS}
    )
    np.testing.assert_array_equal(drawn["classes"], data["drawn_classes"])
