"""What an AdaptiveSoftmax answers, embeds and writes, against float64 NumPy."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests import inference_reference as reference
from tests import oracle
from tests.models import (
    NUM_CLASSES,
    STEPS,
    assert_same_weights,
    hidden_layers,
    make_data,
    sequential,
    train,
)
from tf_hsm import CostModel, Tree
from tf_hsm.layers import AdaptiveSoftmax

COUNTS = np.arange(40) % 11
LAYERS = {
    "one_class": (1, {"cutoffs": []}),
    "flat_softmax": (9, {"cutoffs": []}),
    "head_of_one": (9, {"cutoffs": [1, 2], "div_value": 2}),
    "narrow": (40, {"cutoffs": [5, 9, 21], "div_value": 2.2}),
    "as_wide": (23, {"cutoffs": [3, 12], "div_value": 1, "use_bias": "head"}),
    "two_level": (40, {"cutoffs": [5, 9], "tail": "two_level", "div_value": 3}),
    "trees": (
        40,
        {"cutoffs": [5, 31], "tail": [3, Tree.huffman(range(9))], "width": 12},
    ),
    "permuted": (40, {"cutoffs": [5, 9, 21], "counts": COUNTS, "div_value": 2}),
}

SOME = ["flat_softmax", "narrow", "trees", "permuted"]


def make(name="permuted", seed=0, **options):
    num_classes, own = LAYERS[name]
    options = {"div_value": 3, "width": 12, **own, **options}
    layer = AdaptiveSoftmax(num_classes, **options)
    layer.build([None, 12])
    rng = np.random.default_rng(seed)
    for variable in layer.weights:
        variable.assign(0.7 * rng.normal(size=variable.shape))
    return layer


def make_inputs(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=[*shape, 12]).astype("f4")


def arrays_of(layer):
    """The float64 matrices of the clusters: of the head, then of the tails."""
    n = layer.num_classes if not layer.cutoffs else layer.cutoffs[0]
    head_tree = oracle.OneGroup(n + len(layer.cutoffs))
    parts = [(head_tree, np.eye(12), layer.head_kernel, layer.head_bias)]
    for j, tree in enumerate(layer.clusters.tail_trees):
        p = layer.projections[j]
        p = np.eye(12) if p is None else p.numpy().astype(float)
        parts.append((tree, p, layer.tail_kernels[j], layer.tail_biases[j]))
    return [
        (t, p, k.numpy().astype(float), b if b is None else b.numpy())
        for t, p, k, b in parts
    ]


def ranks_of(layer):
    """The place of each class by its count; of equal ones, of the smaller."""
    if layer.clusters.order is None:
        return np.arange(layer.num_classes)
    return np.argsort(np.lexsort((np.arange(40), -COUNTS)))


def dense_log_probs(layer, x, temperature=1.0):
    """Those of all classes, `[B, N]`."""
    (head, *tails), columns = arrays_of(layer), []
    for j, (tree, p, kernel, bias) in enumerate([head, *tails]):
        bias = 0 if bias is None else bias.astype(float)
        problem = oracle.Problem(
            np.float64(x) @ p,
            None,
            kernel / temperature,
            bias / temperature + np.zeros(len(kernel)),
            None,
        )
        values, _ = reference.node_log_probs(tree, problem)
        values = reference.by_class(tree, values)
        if j == 0:
            n, in_head = len(kernel) - len(tails), values
            columns.append(values[:, :n])
        else:
            columns.append(values + in_head[:, [n + j - 1]])
    return np.concatenate(columns, 1)[:, ranks_of(layer)]


def assert_close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-13), (None, 1e-5)])
def test_log_probs(name, dtype, tolerance):
    """Of all classes, and of given ones; they are the losses, negative."""
    layer = make(name, dtype=dtype)
    x = make_inputs(3, 4)
    expected = dense_log_probs(layer, x.reshape(12, 12)).reshape(3, 4, -1)
    log_probs = layer.log_probs(x)
    assert log_probs.dtype == layer.loss_dtype
    assert_close(log_probs, expected, tolerance)
    assert_close(np.exp(log_probs).sum(-1), 1, 10 * tolerance)
    rng = np.random.default_rng(0)
    classes = rng.integers(layer.num_classes, size=[3, 4, 7])
    for of in (classes, classes[..., :1].astype("i4"), classes[..., :0]):
        given = np.take_along_axis(expected, of, -1)
        assert_close(layer.log_prob(of, x), given, tolerance)
    assert_close(layer(x, classes[..., 0]), -given_first(expected, classes))
    assert_close(layer.log_probs(x[0, 0]), expected[0, 0], tolerance)
    assert layer.log_probs(x[:0]).shape == [0, 4, layer.num_classes]
    assert layer.log_prob(classes[:0], x[:0]).shape == [0, 4, 7]


def given_first(log_probs, classes):
    return np.take_along_axis(log_probs, classes[..., :1], -1)[..., 0]


def test_log_probs_have_gradients():
    """Of all variables and the inputs, as finite differences in float64."""
    layer = make("permuted", dtype="float64")
    x = make_inputs(3).astype(float)
    upstream = np.random.default_rng(0).normal(size=[3, 40])
    variables = [v.value for v in layer.weights]
    with tf.GradientTape() as tape:
        inputs = tf.constant(x)
        tape.watch(inputs)
        total = tf.reduce_sum(upstream * layer.log_probs(inputs))
    gradients = tape.gradient(total, [inputs, *variables])

    def of_inputs(values):
        return (upstream * dense_log_probs(layer, values)).sum()

    assert_close(gradients[0], oracle.finite_differences(of_inputs, x), 1e-7)
    for variable, gradient in zip(layer.weights, gradients[1:], strict=True):
        kept = variable.numpy()

        def of_variable(values, variable=variable):
            variable.assign(values)
            return of_inputs(x)

        expected = oracle.finite_differences(of_variable, kept)
        variable.assign(kept)
        assert_close(gradient, expected, 1e-7)


def test_bad_classes():
    layer, x = make(), make_inputs(2, 3)
    error = tf.errors.InvalidArgumentError
    for classes in ([[0, 40]], [[0, -1]]):
        message = rf"classes must be in \[0, 40\)(.|\n)*{classes[0][1]}"
        with pytest.raises(error, match=message):
            layer.log_prob(classes, x[0, :1])
        with pytest.raises(error, match=message):
            layer(np.array(classes), embed=True)
    with pytest.raises(ValueError, match=r"classes, of shape \(3, 2, 4\)"):
        layer.log_prob(np.zeros([3, 2, 4], int), x)
    with pytest.raises(TypeError, match="classes must be integers"):
        layer.log_prob([[0.5]], x[0, :1])
    with pytest.raises(TypeError, match="classes must be integers"):
        layer.embed([0.5])
    for k in (0, 41):
        with pytest.raises(ValueError, match=rf"k = {k} is not in \[1, 40\]"):
            layer.top_k(x, k)
    unbuilt = AdaptiveSoftmax(9, [3], width=4, name="words")
    for call in (unbuilt.log_probs, unbuilt.sample, unbuilt.top_k):
        with pytest.raises(ValueError, match="words has no weights yet"):
            call(x, *([] if call == unbuilt.log_probs else [1]))
    with pytest.raises(ValueError, match="words has no weights yet"):
        unbuilt.embed([1])


@pytest.mark.parametrize("name", LAYERS)
def test_top_k(name):
    """Exactly the best classes, for every k."""
    layer = make(name)
    x = make_inputs(3, 4)
    # Some sure of a class in the head, some of one in a tail.
    x *= np.array([0.1, 1, 5], "f4")[:, np.newaxis, np.newaxis]
    log_probs = layer.log_probs(x).numpy()
    order = reference.ranking(dense_log_probs(layer, x.reshape(12, 12)))
    order = order.reshape(3, 4, -1)
    for k in {*range(1, 12), layer.num_classes} - {
        *range(layer.num_classes + 1, 12)
    }:
        found = layer.top_k(x, k)
        assert found.classes.dtype == tf.int64
        np.testing.assert_array_equal(found.classes, order[..., :k])
        own = np.take_along_axis(log_probs, order[..., :k], -1)
        assert_close(found.log_probs, own, 1e-6)
    np.testing.assert_array_equal(layer.predict_class(x), order[..., 0])
    np.testing.assert_array_equal(layer(x), order[..., 0])
    assert layer.top_k(x[:0], 1).classes.shape == [0, 4, 1]
    np.testing.assert_array_equal(layer.predict_class(x[1, 2]), order[1, 2, 0])


@pytest.mark.parametrize("k", [1, 3, 7, 20, 40])
def test_top_k_of_ties(k):
    """Equal classes come in the order of their frequency."""
    layer = make()
    for variable in layer.weights:
        variable.assign(tf.zeros_like(variable))
    order = np.lexsort((np.arange(40), -COUNTS))
    # Of 8 rows of the head 3 are tails, of 4, 12 and 19 classes.
    np.testing.assert_array_equal(
        layer.top_k(make_inputs(2), k).classes, [order[:k]] * 2
    )


@pytest.mark.parametrize("where", ["inputs", "head", "tail"])
@pytest.mark.parametrize("k", [1, 8, 40])
def test_top_k_of_nan(where, k):
    """No class twice, and NaN after all numbers."""
    layer, x = make(), make_inputs(4)
    if where == "inputs":
        x[2, 3] = np.nan
    else:
        kernel = layer.head_kernel if where == "head" else layer.tail_kernels[1]
        kernel.assign(kernel.numpy() * np.nan)
    found = layer.top_k(x, k)
    for row in found.classes.numpy():
        assert len({*row}) == k and row.min() >= 0 and row.max() < 40
    log_probs = layer.log_probs(x).numpy()
    log_probs[np.isnan(log_probs)] = -np.inf
    np.testing.assert_allclose(
        found.log_probs, -np.sort(-log_probs)[:, :k], rtol=1e-5
    )
    if where != "tail":
        bad = [2] if where == "inputs" else [0, 1, 2, 3]
        for options in ({}, {"top_k": 3}):
            drawn = layer.sample(x, 5, seed=1, **options).numpy()
            assert (drawn[bad] == -1).all()


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize(
    "options", [{}, {"temperature": 1.7}, {"top_k": 6}, {"top_p": 0.8}]
)
def test_sample(name, options):
    """A chi-square test; the same seed draws the same classes."""
    layer, x = make(name), make_inputs(2)
    draws = layer.sample(x, 20_000, seed=5, **options)
    assert draws.dtype == tf.int64
    restricted = options.keys() & {"top_k", "top_p"}
    log_probs = dense_log_probs(layer, x, options.get("temperature", 1.0))
    for log_p, drawn in zip(log_probs, draws.numpy(), strict=True):
        p = np.exp(log_p)
        if restricted:
            order = np.argsort(-p)
            before = np.cumsum(p[order]) - p[order]
            kept = before < options.get("top_p", 1)
            kept &= np.arange(p.size) < options.get("top_k", p.size)
            p[order[~kept]] = 0
            p /= p.sum()
        assert reference.p_value(drawn, p) > 1e-4
    np.testing.assert_array_equal(
        layer.sample(x, 20_000, seed=5, **options), draws
    )
    other = layer.sample(x, 20_000, seed=6, **options)
    assert np.mean(other != draws) > 0.3


def test_draws_are_independent():
    """Those of an input, of two inputs alike, and of the head and a tail."""
    layer = make()
    x = np.repeat(make_inputs(1), 2, 0)
    one, other = layer.sample(x, 20_000, seed=(7, 2**40)).numpy()
    p = np.exp(dense_log_probs(layer, x[:1]))[0]
    pairs = np.outer(p, p).ravel()
    for a, b in ((one, other), (one[:-1], one[1:])):
        assert reference.p_value(a * 40 + b, pairs) > 1e-4


DRAW = """
import sys
import tensorflow as tf
from tests.adaptive_predictions_test import make, make_inputs
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
tf.config.threading.set_inter_op_parallelism_threads(int(sys.argv[1]))
print(make().sample(make_inputs(50), 30, seed=4).numpy().tolist())
"""


def test_draws_do_not_depend_on_threads():
    draws = [
        subprocess.run(
            [sys.executable, "-c", DRAW, threads],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for threads in "13"
    ]
    assert draws[0] == draws[1] and len(draws[0]) > 3000


def test_bad_sample_arguments():
    layer, x = make(), make_inputs(2)
    for options, message in (
        ({"top_k": 0}, "k = 0"),
        ({"top_p": 1.5}, "top_p = 1.5 is not in"),
        ({"top_k": 2, "temperature": 0.0}, "temperature = 0.0 is not"),
    ):
        with pytest.raises(ValueError, match=message):
            layer.sample(x, 3, **options)
    assert layer.sample(x, 0).shape == [2, 0]
    assert layer.sample(x[:0], 3).shape == [0, 3]


def make_model(**options):
    """Tokens to classes; and the head."""
    options = {"cutoffs": [4, 11], "div_value": 2, **options}
    head = AdaptiveSoftmax(NUM_CLASSES, **options)
    model = sequential(*hidden_layers(), head)
    model.compile("sgd", loss=head.loss)
    return model, head


def test_evaluate_looks_for_no_class():
    """TensorFlow leaves the search out where nobody asks for its result."""
    tokens, labels = make_data()
    model, _ = make_model()
    model.evaluate(tokens, labels, verbose=0)

    def step():
        return model.test_step((tf.constant(tokens), tf.constant(labels)))

    graph = tf.function(step).get_concrete_function().graph
    kept = {t.op for t in graph.outputs} | set(graph.control_outputs)
    waiting = list(kept)
    while waiting:
        op = waiting.pop()
        above = {t.op for t in op.inputs} | set(op.control_inputs)
        waiting += above - kept
        kept |= above
    types = {op.type for op in kept}
    assert "ResourceTfHsmLoss" in types
    assert not types & {"ResourceTfHsmTopK", "ResourceTfHsmLogProbs"}


@pytest.mark.parametrize("name", SOME)
def test_embed(name):
    """Rows of the head, and rows of tails through the projection's transpose.

    Gradients go to the variables that the losses train.
    """
    layer = make(name)
    parts, n = arrays_of(layer), layer.head_kernel.shape[0] - len(layer.cutoffs)
    ranks, vectors = ranks_of(layer), []
    for c in range(layer.num_classes):
        j = np.searchsorted(layer.cutoffs, ranks[c], side="right")
        tree, p, kernel, _ = parts[j]
        row = ranks[c] - (layer.cutoffs[j - 1] if j else 0)
        vectors.append(kernel[tree.class_rows[row]] @ p.T)
    vectors = np.array(vectors)
    classes = np.arange(layer.num_classes)
    assert n == (layer.cutoffs or [layer.num_classes])[0]
    assert_close(layer(classes, embed=True), vectors, 1e-6)
    drawn = np.array([[8, 3, 3], [0, 8, 1]], "i4") % layer.num_classes
    assert_close(layer.embed(drawn), vectors[drawn], 1e-6)
    assert layer.embed(drawn[:0]).shape == [0, 3, 12]
    upstream = np.random.default_rng(0).normal(size=vectors.shape)
    variables = [v.value for v in layer.weights if "bias" not in v.path]
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(upstream.astype("f4") * layer.embed(classes))
    gradients = tape.gradient(total, variables)
    for variable, gradient in zip(variables, gradients, strict=True):
        # It is linear in each variable.
        ones = tf.reduce_sum(tf.convert_to_tensor(gradient) * variable)
        own = np.isin(ranks, np.arange(n))
        if variable is not layer.head_kernel.value:
            j = next(
                j
                for j in range(len(layer.cutoffs))
                if any(
                    v is not None and v.value is variable
                    for v in (layer.projections[j], layer.tail_kernels[j])
                )
            )
            own = np.searchsorted(layer.cutoffs, ranks, side="right") == j + 1
        assert_close(ones, (upstream * vectors)[own].sum(), 1e-4)


def tied_model(optimizer, counts):
    """Predicts tokens from tokens, through one matrix of vectors."""
    head = AdaptiveSoftmax(
        NUM_CLASSES, [4, 11], 2, counts=counts, width=8, name="words"
    )
    tokens = keras.Input([STEPS], dtype="int32")
    hidden = keras.layers.Dense(8, "tanh")(head(tokens, embed=True))
    model = keras.Model(tokens, head(hidden))
    model.compile(optimizer, loss=head.loss)
    return model


@pytest.mark.parametrize(
    "make_optimizer",
    [lambda: keras.optimizers.Adam(0.03), lambda: tf_hsm.optimizers.SGD(1.0)],
    ids=["adam", "own_sgd"],
)
def test_tied_model(make_optimizer, tmp_path):
    """It trains, and comes back from a file."""
    tokens, labels = make_data()
    counts = np.random.default_rng(0).integers(9, size=NUM_CLASSES)
    model = tied_model(make_optimizer(), counts)
    assert len(model.weights) == 10
    losses = train(model, tokens, labels, epochs=8)
    assert losses[-1] < 0.8 * losses[0]
    model.save(tmp_path / "tied.keras")
    loaded = keras.models.load_model(tmp_path / "tied.keras")
    for _ in range(2):
        assert_same_weights(loaded, model, 1e-6)
        assert_close(
            loaded.evaluate(tokens, labels, verbose=0),
            model.evaluate(tokens, labels, verbose=0),
        )
        train(model, tokens, labels)
        train(loaded, tokens, labels)
    with pytest.raises(ValueError, match="other embeds classes only if"):
        AdaptiveSoftmax(9, [3], name="other")(keras.Input([5]), embed=True)


@pytest.mark.parametrize("cutoffs", ["auto", 2, [4, 11]])
@pytest.mark.parametrize("built", [False, True])
def test_saving(cutoffs, built, tmp_path):
    """The cutoffs and the order of the classes survive, chosen or not yet."""
    counts = np.random.default_rng(0).integers(1, 99, size=NUM_CLASSES)
    head = AdaptiveSoftmax(
        NUM_CLASSES,
        cutoffs,
        np.float32(1.5),
        counts,
        tail=np.int64(3),
        batch=np.int64(64),
        ignore_class=np.int64(-1),
        cost_model=CostModel(call=0.0, weight=1e-3),
    )
    model = keras.Sequential([keras.layers.Dense(16), head])
    x = make_inputs(6)
    if built:
        model(x)
    config = json.loads(json.dumps(head.get_config()))
    assert AdaptiveSoftmax.from_config(config).get_config() == config
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    model(x)
    loaded(x)
    for variable, value in zip(
        loaded.weights, model.get_weights(), strict=True
    ):
        assert variable.shape == value.shape
        if not built:
            variable.assign(value)
    copy = loaded.layers[-1]
    assert [*copy.cutoffs] == [*head.cutoffs] and head.cutoffs
    assert copy.ignore_class == -1
    order = np.argsort(-counts, kind="stable")
    np.testing.assert_array_equal(
        copy.clusters.order.class_rows[order], np.arange(NUM_CLASSES)
    )
    hidden = model.layers[0](x)
    np.testing.assert_array_equal(loaded(x), model(x))
    np.testing.assert_array_equal(
        copy.log_probs(hidden), head.log_probs(hidden)
    )
    clone = keras.models.clone_model(model)
    assert [*clone.layers[-1].cutoffs] == [*head.cutoffs]


def test_trees_are_saved():
    layer = make("trees")
    config = json.loads(json.dumps(layer.get_config()))
    copy = AdaptiveSoftmax.from_config(config)
    assert copy.clusters.tail_trees == layer.clusters.tail_trees


def test_export(tmp_path):
    """A SavedModel computes what the model does."""
    tokens, _ = make_data()
    counts = np.random.default_rng(0).integers(9, size=NUM_CLASSES)
    model, _ = make_model(counts=counts)
    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(tmp_path / "exported")
    np.testing.assert_array_equal(
        served.serve(tf.constant(tokens, tf.int32)),
        model.predict(tokens, verbose=0),
    )


def test_automatic_cutoffs():
    """Those of the cost model, for the batch, the width and the counts."""
    counts = 1e6 / np.arange(1, 20_001) ** 1.1
    shuffled = np.random.default_rng(0).permutation(counts)
    chosen = {}
    for name, options in {
        "default": {},
        "shuffled": {"counts": shuffled},
        "three": {"cutoffs": 3, "div_value": 2},
        "none": {"cutoffs": 0},
        "large": {"batch": 100_000},
        "calls": {"cost_model": CostModel(call=1e3)},
    }.items():
        layer = AdaptiveSoftmax(20_000, **{"counts": counts, **options})
        assert layer.cutoffs == options.get("cutoffs", "auto")
        layer.build([None, 256])
        chosen[name] = [*layer.cutoffs]
    assert chosen["shuffled"] == chosen["default"] != chosen["large"]
    assert (len(chosen["three"]), chosen["none"]) == (3, [])
    assert len(chosen["calls"]) == 1 < len(chosen["default"])
    tree = Tree.adaptive(counts, 2, batch=64, width=32)
    layer = AdaptiveSoftmax(20_000, 2, 1, counts, batch=64)
    layer.build([None, 32])
    assert layer.head_kernel.shape[0] == tree.group_offsets[1]


@pytest.mark.parametrize("num_classes", [1, 2, 3, 4, 10, 1000])
@pytest.mark.parametrize(
    "wrong",
    [
        dict.fromkeys(["call", "floor", "weight", "logit", "product"], 0.0),
        {"weight": 1e9},
        {"logit": 1e9},
        {"floor": 1e9, "product": 0.0},
        {"call": 1e9},
    ],
)
def test_wrong_calibration(num_classes, wrong):
    """No head of one class, and no empty tail, whatever the cost model."""
    for counts in (None, np.zeros(num_classes), np.eye(num_classes)[0]):
        layer = AdaptiveSoftmax(
            num_classes, counts=counts, cost_model=CostModel(**wrong)
        )
        layer.build([None, 32])
        ends = [0, *layer.cutoffs, num_classes]
        assert ends[1] >= min(num_classes, 2)
        assert (np.diff(ends) >= 1).all()
        assert layer(make_inputs(1)[:, :8].repeat(4, 1)).shape == [1]
