"""The signatures of an export, what they answer, and what it stores."""

import pathlib
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.models import (
    NUM_CLASSES,
    STEPS,
    WIDTH,
    compile_form,
    head_of,
    hidden_model,
    make_head,
)
from tests.support.serving_models import (
    OPTIONS,
    K,
    adaptive_form,
    label_tree_form,
    make_inputs,
)
from tf_hsm import serving

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/export"


def export_and_load(model, path):
    serving.export(model, path, k=K)
    return tf.saved_model.load(path)


def assert_same_signatures(loaded, other, but=None):
    """Asserts that `other` has the signatures of `loaded`, but for one."""
    for name in loaded.signatures.keys() - {but}:
        one, its = loaded.signatures[name], other.signatures[name]
        assert its.structured_input_signature == one.structured_input_signature
        assert its.structured_outputs == one.structured_outputs


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model, where it was exported, and what came from loading that."""
    model = compile_form()
    path = tmp_path_factory.mktemp("exported") / "1"
    return model, path, export_and_load(model, path)


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
    other = export_and_load(model, tmp_path / "2")
    assert_same_signatures(loaded, other)
    assert stored_variables(tmp_path / "2") == stored_variables(path)


def test_signatures_of_an_adaptive_softmax(exported, tmp_path):
    """They are those of a hierarchical one; none of the options is fixed."""
    model = adaptive_form()
    loaded = export_and_load(model, tmp_path / "1")
    assert_same_signatures(exported[2], loaded)
    tokens, _ = make_inputs()
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
    loaded = export_and_load(model, tmp_path / "1")
    assert set(loaded.signatures) == {"serving_default", "log_prob", "labels"}
    assert_same_signatures(exported[2], loaded, but="sample")
    tokens, _ = make_inputs()
    hidden, head = hidden_model(model)(tokens), head_of(model)
    for arguments, threshold in (
        ((), 0.5),
        ((tf.constant(0.3, tf.float64),), 0.3),
        ((tf.constant(1.0, tf.float64),), 1.0),
    ):
        found = loaded.labels(tokens, *arguments)
        expected = head.top_k(hidden, K, threshold=threshold)
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
    loaded = export_and_load(model, tmp_path / "1")
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


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_head(),
        lambda: tf_hsm.layers.AdaptiveSoftmax(NUM_CLASSES, cutoffs=[9]),
        lambda: tf_hsm.layers.SampledSoftmax(NUM_CLASSES, num_sampled=4),
        lambda: tf_hsm.layers.LabelTree(tf_hsm.Tree.two_level(NUM_CLASSES)),
    ],
)
def test_inputs_that_are_not_numbers(make, tmp_path):
    """They have no answer, and all others of the batch have theirs."""
    inputs, head = keras.Input([WIDTH], name="x"), make()
    loaded = export_and_load(keras.Model(inputs, head(inputs)), tmp_path / "1")
    x = np.random.default_rng(0).normal(size=[3, WIDTH]).astype("f4")
    wrong = x.copy()
    wrong[1, 2] = np.nan
    given = {"log_prob": {"classes": np.array([[1, 9]] * 3)}}
    if "sample" in loaded.signatures:
        given["sample"] = OPTIONS
    for name in ("serving_default", *given):
        signature, more = loaded.signatures[name], given.get(name, {})
        more = {k: tf.constant(np.array(v)) for k, v in more.items()}
        found, right = (
            signature(**{"x": tf.constant(a)}, **more) for a in (wrong, x)
        )
        for key, values in found.items():
            np.testing.assert_array_equal(
                tf.gather(values, [0, 2]), tf.gather(right[key], [0, 2])
            )
        if name == "sample":
            np.testing.assert_array_equal(found["classes"][1], -1)
        else:
            assert not np.isfinite(found["log_probs"][1]).any()
