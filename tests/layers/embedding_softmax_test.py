"""EmbeddingSoftmax: trains as the layers do for which it stands."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import embedding_softmaxes as softmaxes
from tests.support.in_place_models import arguments, fit
from tests.support.models import TREE
from tests.support.training import assert_near, assert_same, layer_step
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import optimizers
from tf_hsm.layers import HierarchicalSoftmax
from tf_hsm.metrics import Perplexity


@pytest.mark.parametrize(
    "kind, combiner, form, rule, eager",
    [
        ("ids", "mean", "compile", "adagrad", False),
        ("padded", "sum", "compile", "lazy_adam", True),
        ("ragged", "mean", "endpoint", "rowwise_adagrad", True),
        ("weighted", "mean", "endpoint", "adagrad", False),
        ("ragged_weighted", "sum", "compile", "sgd", False),
    ],
)
def test_in_place_as_by_gradients(kind, combiner, form, rule, eager):
    """With every input; an ignored class; empty bags, which are zeros."""
    data = arguments(form, softmaxes.make_inputs(kind), softmaxes.make_labels())
    ignored = int(softmaxes.make_labels()[3])
    runs = []
    for own in (True, False):
        layer = softmaxes.make_layer(
            combiner=combiner,
            ignore_class=ignored,
            optimizer=OPTIMIZERS[rule]() if own else None,
        )
        model = softmaxes.make_model(layer, kind, form, OPTIMIZERS[rule]())
        model.run_eagerly = eager or not own
        losses = fit(model, data)
        runs.append([losses, softmaxes.weights(layer)])
        assert losses[1] < losses[0]
        # Keras asks for the gradient of the anchor, having nothing else.
        assert len(layer.trainable_weights) == (1 if own else 3)
    assert_near(*runs, 1e-5)


def own_layer(rule="rowwise_adagrad", **options):
    return softmaxes.make_layer(optimizer=OPTIMIZERS[rule](), **options)


@pytest.mark.parametrize("combiner", ["mean", "sum"])
@pytest.mark.parametrize("kind", softmaxes.KINDS)
def test_embed(kind, combiner):
    """As NumPy adds them up, one by one; and their gradients."""
    layer = softmaxes.make_layer(combiner=combiner, dtype="float64")
    inputs = softmaxes.make_inputs(kind)
    layer.build()
    ids, weights = inputs if isinstance(inputs, list) else (inputs, None)
    # How often each id counts in each bag.
    factors = np.zeros([len(softmaxes.make_labels()), softmaxes.COUNT])
    for i, its in enumerate(factors):
        bag = np.ravel(ids[i])
        each = np.ones(bag.size) if weights is None else np.ravel(weights[i])
        np.add.at(its, bag[bag >= 0], each[bag != softmaxes.PADDING])
        if combiner == "mean" and its.any():
            its /= its.sum()
    expected = factors @ layer.embeddings.numpy()
    with tf.GradientTape() as tape:
        found = layer.embed(inputs)
        total = tf.reduce_sum(found**2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    slope = tf.convert_to_tensor(tape.gradient(total, layer.embeddings.value))
    np.testing.assert_allclose(slope, 2 * factors.T @ expected, atol=1e-12)
    padded, bags = np.array([[3, -1, 4], [-1, 3, 4]]), np.array([[3, 4]] * 2)
    assert_same(layer.embed(padded), layer.embed(bags))
    assert not np.any(layer.embed(padded[1, :1]))


@pytest.mark.parametrize("kind", softmaxes.KINDS)
def test_answers(kind):
    """Those of a HierarchicalSoftmax of the embedded ids, to the bit.

    The layer takes what it returned, too.
    """
    layer = softmaxes.make_layer()
    layer.build()
    head = HierarchicalSoftmax(TREE)
    head.build([None, softmaxes.WIDTH])
    head.set_weights(softmaxes.weights(layer)[1:])
    inputs, labels = softmaxes.make_inputs(kind), softmaxes.make_labels()
    hidden = layer.embed(inputs)
    lists = np.arange(hidden.shape[0] * 5).reshape(-1, 5) % 29
    for given in (inputs, hidden, hidden.numpy()):
        for name, options in (
            ("top_k", {"k": 4}),
            ("top_k", {"k": 4, "allowed": lists, "renormalize": True}),
            ("log_probs", {}),
            ("log_prob", {"classes": lists}),
            ("sample", {"num_samples": 3, "seed": 1}),
            ("predict_class", {}),
        ):
            assert_same(
                getattr(layer, name)(inputs=given, **options),
                getattr(head, name)(inputs=hidden, **options),
            )
        assert_same(layer(given), hidden)
        assert_same(layer(given, labels), head(hidden, labels))
    symbol = keras.Input([softmaxes.WIDTH])
    model = keras.Model(symbol, layer.top_k(symbol, 4).classes)
    assert_same(model(hidden), head.top_k(hidden, 4).classes)


def test_vectors_move_no_row():
    layer = own_layer()
    layer.build()
    before = layer.embeddings.numpy()
    hidden = layer(softmaxes.make_inputs("padded"))
    layer_step(layer, hidden, softmaxes.make_labels())
    assert_same(layer.embeddings.numpy(), before)


def test_in_functional_models(tmp_path):
    """Answers are outputs of models, which are saved."""
    kind, layer = "ragged_weighted", softmaxes.make_layer()
    inputs, data = softmaxes.symbols(kind), softmaxes.make_inputs(kind)
    answers = keras.Model(
        inputs, [*layer.top_k(inputs, 3), layer.embed(inputs), layer(inputs)]
    )
    answers.save(tmp_path / "answers.keras")
    loaded = keras.models.load_model(tmp_path / "answers.keras")
    vectors = layer.embed(data)
    expected = [*layer.top_k(data, 3), vectors, vectors]
    for model in (answers, loaded):
        assert_near(model(data), expected, 1e-6)


def test_only_touched_embeddings_move():
    """Those of ignored and masked labels do not, nor that of padding."""
    layer = own_layer("lazy_adam", ignore_class=9, padding_id=0)
    layer.build()
    before = layer.embeddings.numpy()
    layer_step(
        layer,
        np.array([[1, 2], [3, 0], [4, 5], [6, 7]]),
        np.array([1, 2, 9, 3]),
        inputs_mask=np.array([True, True, True, False]),
    )
    moved = np.flatnonzero((layer.embeddings.numpy() != before).any(1))
    np.testing.assert_array_equal(moved, [1, 2, 3])
    layer.trainable = False
    before = softmaxes.state(layer)
    layer_step(layer, np.array([1, 2]), np.array([1, 2]))
    assert_same(softmaxes.state(layer), before)


COUNT, LABELS = softmaxes.COUNT, np.array([1, 2])
BAGS, MASK = np.array([[1, 2], [3, 4]]), np.ones([2, 2], bool)
RAGGED = tf.ragged.constant([[1, 2], [-2]], dtype=tf.int64)
MASKED = tf.constant(BAGS)
MASKED._keras_mask = tf.constant(MASK)
# As long as a vector is wide: such bags would move the tree alone.
LONG = np.zeros([2, softmaxes.WIDTH], np.int64)
ERRORS = TypeError, ValueError, tf.errors.InvalidArgumentError
# Words of the error, and inputs.
INPUTS = [
    (rf"= {COUNT} is outside \[0, {COUNT}\)", BAGS + COUNT - 3),
    (rf"= -2 is outside \[0, {COUNT}\)", RAGGED),
    ("ids must be integers, but are float", BAGS * 1.0),
    (r"ids, of shape \(2, 2, 1\), must be \[batch", BAGS[..., None]),
    ("weights must have the shape of ids", [BAGS, np.ones(2, "f4")]),
    (
        "weights must have the shape of ids",
        [RAGGED, tf.cast(RAGGED[::-1], "float32")],
    ),
    # Two arrays are ids and weights.
    ("weights must be floats, but are int", [LABELS, LABELS]),
    ("but are a list of 3", [LABELS, np.ones(2), np.ones(2)]),
    ("labels, of shape", np.arange(3)),
    ("padding_id leaves out some", MASKED),
]
# Words of the error, and what is asked of a layer.
CALLS = [
    *(
        (words, lambda layer, ids=ids: layer_step(layer, ids, LABELS))
        for words, ids in INPUTS
    ),
    (rf"ids\[1\] = {COUNT} is outside", lambda layer: layer.embed([1, COUNT])),
    (
        rf"ids\[1\] = {COUNT} is outside",
        lambda layer: layer.log_probs([1, COUNT]),
    ),
    (
        rf"ids\[1\] = {COUNT} is outside",
        lambda layer: layer.top_k([1, COUNT], 2),
    ),
    ('keras.Input.*dtype="int64"', lambda layer: layer(keras.Input([]))),
    (r"not ids.*what head\(ids\)", lambda layer: layer.loss(LABELS, LONG)),
    (
        "not ids",
        lambda layer: Perplexity(layer).update_state(LABELS, LONG),
    ),
    ("leaves out", lambda layer: layer(BAGS, LABELS, inputs_mask=MASK)),
]


@pytest.mark.parametrize("own", ["adagrad", None])
@pytest.mark.parametrize("words, call", CALLS)
def test_wrong_calls(words, call, own):
    """They move nothing, whoever trains the layer."""
    layer = softmaxes.make_layer(optimizer=own)
    layer.build()
    before = softmaxes.state(layer)
    with tf.GradientTape(), pytest.raises(ERRORS, match=words):
        call(layer)
    assert_same(softmaxes.state(layer), before)


def test_a_list_of_ids():
    layer = softmaxes.make_layer()
    layer.build()
    np.testing.assert_array_equal(layer.embed([1, 2]), layer.embed(LABELS))


def test_gradients():
    """With an optimizer of its own they move rows, or are refused."""
    layer = softmaxes.make_layer(optimizer=optimizers.SGD(0.5))
    layer.build()
    ids = softmaxes.make_inputs("ragged")
    with tf.GradientTape() as tape:
        tape.watch(layer.embeddings.value)
        found = layer.log_probs(ids)
    with pytest.raises(LookupError, match="gradient of log_probs"):
        tape.gradient(found, layer.embeddings.value)
    before = softmaxes.state(layer)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(layer.embed(np.array([3, 3, 7])))
    assert tape.gradient(total, layer.in_place.anchor.value) == 0
    table, *others = softmaxes.state(layer)
    before[0][[3, 7]] -= [[1.0], [0.5]]
    np.testing.assert_allclose(table, before[0], rtol=1e-6)
    assert_same(others, before[1:])
    with tf.GradientTape() as tape:
        rows = [v.value for v in layer.row_variables()]
        tape.watch(rows)
        losses = layer(ids, softmaxes.make_labels())
    anchor = layer.in_place.anchor.value
    assert tape.gradient(losses, [*rows, anchor]) == [None, None, None, 0]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(policy):
    """The vectors stay as wide as the table; the loss may be scaled."""
    data = {"x": softmaxes.make_inputs("padded"), "y": softmaxes.make_labels()}
    runs = []
    for name in (policy, "float32"):
        keras.config.set_dtype_policy(name)
        try:
            layer = softmaxes.make_layer(optimizer="sgd")
            losses = fit(softmaxes.make_model(layer, "padded"), data)
        finally:
            keras.config.set_dtype_policy("float32")
        runs.append([losses, softmaxes.weights(layer)])
        assert layer.embed(data["x"]).dtype == name.removeprefix("mixed_")
    assert_near(*runs, 1e-6)


def test_weights_of_bags_that_are_learned():
    """In place as by the model's optimizer."""
    ids = keras.Input([3], dtype="int64")
    data = {"x": np.arange(12).reshape(4, 3) % 9, "y": np.arange(4)}
    runs = []
    for own in ("sgd", None):
        keras.utils.set_random_seed(2)
        embedding = keras.layers.Embedding(9, 1)
        learned = keras.layers.Reshape([3])(embedding(ids))
        head = softmaxes.make_layer(optimizer=own)
        model = keras.Model(ids, head([ids, learned]))
        model.compile(optimizers.SGD(0.01), head.loss)
        before = embedding.embeddings.numpy()
        losses = fit(model, data)
        assert (embedding.embeddings.numpy() != before).any()
        variables = [*head.row_variables(), embedding.embeddings]
        runs.append([losses, *(v.numpy() for v in variables)])
    assert_near(*runs, 1e-6)
