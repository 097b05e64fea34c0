"""Losses and gradients of AdaptiveSoftmax, against float64 NumPy."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import adaptive_layers, oracle
from tests.support import inference_reference as reference
from tests.support.adaptive_layers import ranks_of
from tf_hsm import Tree
from tf_hsm.layers import AdaptiveSoftmax

# num_classes and the layer's other arguments; inputs are 12 wide.
LAYERS = {
    **adaptive_layers.LAYERS,
    "tail_of_one": (9, {"cutoffs": [4, 8], "div_value": 2}),
    "width_1": (17, {"cutoffs": [6], "div_value": 12}),
    "no_bias": (40, {"cutoffs": [5, 9, 21], "use_bias": False, "div_value": 2}),
    "branching": (40, {"cutoffs": [5], "tail": np.int64(3)}),
    "several_trees": (
        40,
        {
            "cutoffs": [5, 9, 21],
            "div_value": 2,
            "tail": [Tree.huffman([9, 1, 5, 3], branching=2), "flat", 3],
        },
    ),
}


def make(name="permuted", **options):
    num_classes, own = LAYERS[name]
    return adaptive_layers.made(num_classes, **{**own, **options})


def make_inputs(layer, shape=(31,), width=12, seed=1):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=[*shape, width]).astype(layer.compute_dtype)
    return inputs, rng.integers(layer.num_classes, size=shape)


def cluster(tree, kernel, bias, inputs, inputs_error, labels, upstream):
    """One softmax, on inputs that are off by up to `inputs_error`.

    To first order that moves a probability by the relative error e, twice the
    largest change of a logit, and what follows from it as the bounds say.
    """
    kernel = kernel.numpy()
    bias = None if bias is None else bias.numpy()
    value, bound = oracle.hierarchical_softmax(
        tree, oracle.Problem(inputs, labels, kernel, bias, upstream)
    )
    size, upstream = abs(kernel).astype(float), abs(upstream)
    e = 2 * tree.depth * (inputs_error @ size.T).max(1, initial=0)
    moved = upstream * e
    return value, dataclasses.replace(
        bound,
        loss=bound.loss + e,
        dx=bound.dx + tree.depth * np.outer(moved, size.max(0)),
        dw=bound.dw + moved @ abs(inputs) + upstream @ inputs_error,
        db=bound.db + moved.sum(),
    )


def expected(layer, x, labels, upstream):
    """Lists the losses, and the gradients of their weighted sum.

    Returns:
        Pairs of a value and a bound on the error: of the losses, the inputs,
        and the variables in the order of `layer.weights`.
    """
    x = x.astype(float)
    dtype = np.dtype(layer.variable_dtype)
    u = 2 * oracle.unit_roundoff(oracle.accumulator(dtype))
    half_ulp = oracle.unit_roundoff(dtype)
    ranks, cutoffs = ranks_of(layer)[labels], np.array(layer.cutoffs, int)
    tails = np.searchsorted(cutoffs, ranks, side="right")
    n = layer.head_kernel.shape[0] - cutoffs.size
    head_rows = np.where(tails > 0, n + tails - 1, ranks)
    value, bound = cluster(
        oracle.OneGroup(n + cutoffs.size),
        layer.head_kernel,
        layer.head_bias,
        x,
        0 * x,
        head_rows,
        upstream,
    )
    results = [(value.dw, bound.dw)]
    if layer.head_bias is not None:
        results.append((value.db, bound.db))
    sums = (value.loss, bound.loss, value.dx, bound.dx)
    for j, tree in enumerate(layer.clusters.tail_trees):
        at = tails == j + 1
        p = np.eye(x.shape[1])
        if layer.projections[j] is not None:
            p = layer.projections[j].numpy().astype(float)
        terms = x.shape[1] + 1 if layer.projections[j] is not None else 0
        value, bound = cluster(
            tree,
            layer.tail_kernels[j],
            layer.tail_biases[j],
            x[at] @ p,
            terms * u * abs(x[at]) @ abs(p),
            ranks[at] - cutoffs[j],
            upstream[at],
        )
        dx = value.dx @ p.T
        dx_error = bound.dx @ abs(p).T + p.shape[1] * u * (
            abs(value.dx) @ abs(p).T
        )
        for total, part in zip(
            sums, (value.loss, bound.loss, dx, dx_error), strict=True
        ):
            total[at] += part
        if layer.projections[j] is not None:
            dp = x[at].T @ value.dx
            error = abs(x[at]).T @ (bound.dx + at.sum() * u * abs(value.dx))
            results.append((dp, error + half_ulp * abs(dp)))
        results.append((value.dw, bound.dw))
        if layer.tail_biases[j] is not None:
            results.append((value.db, bound.db))
        # What is added is rounded to the type of the inputs.
        sums[3][at] += half_ulp * (abs(dx) + abs(sums[2][at]))
    loss, loss_bound, dx, dx_bound = sums
    return [(loss, loss_bound + 2 * u * abs(loss)), (dx, dx_bound), *results]


def check(layer, x, labels, ignore=()):
    """Compares losses and gradients, weighted at random, with NumPy's."""
    rng = np.random.default_rng(2)
    upstream = rng.normal(size=labels.shape).astype(layer.loss_dtype)
    with tf.GradientTape() as tape:
        inputs = tf.constant(x)
        tape.watch(inputs)
        losses = layer(inputs, labels)
        total = tf.reduce_sum(upstream * losses)
    variables = [v.value for v in layer.weights]
    gradients = tape.gradient(total, [inputs, *variables])
    assert losses.dtype == layer.loss_dtype and losses.shape == labels.shape
    counts = ~np.isin(labels, ignore).ravel()
    flat_x, flat_labels = x.reshape(-1, x.shape[-1]), labels.ravel()
    (loss, bound), (dx, dx_bound), *others = expected(
        layer,
        flat_x[counts],
        flat_labels[counts],
        upstream.ravel()[counts],
    )
    actual = losses.numpy().ravel()
    reference.assert_near(actual[counts], loss, bound, "losses")
    assert not actual[~counts].any()
    actual = gradients[0].numpy().reshape(flat_x.shape)
    reference.assert_near(actual[counts], dx, dx_bound, "inputs")
    assert not actual[~counts].any()
    for variable, gradient, (value, bound) in zip(
        layer.weights, gradients[1:], others, strict=True
    ):
        if isinstance(gradient, tf.IndexedSlices):
            rows = gradient.indices.numpy()
            assert (np.diff(rows) > 0).all(), variable.path
            assert not value[np.setdiff1d(np.arange(len(value)), rows)].any()
            gradient = tf.convert_to_tensor(gradient)
        else:
            assert "projection" in variable.path
        reference.assert_near(gradient, value, bound, variable.path)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_losses_and_gradients(name, dtype):
    """In float64 the bounds leave no room for a wrong formula."""
    layer = make(name, dtype=dtype)
    check(layer, *make_inputs(layer))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["permuted", "trees", "as_wide"])
def test_half_precision(name, dtype):
    layer = make(name, dtype=dtype)
    check(layer, *make_inputs(layer))


@pytest.mark.parametrize(
    "shape, labels",
    [((0,), 0), ((3, 0), 0), ((6,), 2), ((6,), 11), ((2, 3, 4), None)],
    ids=["empty", "empty_2d", "head_only", "one_tail", "leading"],
)
def test_batches(shape, labels):
    """Tails without examples, among them."""
    layer = make("narrow")
    x, drawn = make_inputs(layer, shape)
    check(layer, x, drawn if labels is None else np.full(shape, labels))


@pytest.mark.parametrize("ignore_class", [-1, 3, 30, 10**6])
@pytest.mark.parametrize("label_dtype", ["int32", "int64"])
def test_ignore_class(ignore_class, label_dtype):
    """A class of a tail, of the head, or none at all."""
    layer = make(ignore_class=ignore_class)
    x, labels = make_inputs(layer, (7, 5))
    labels[::2, 1] = ignore_class
    check(layer, x, labels.astype(label_dtype), [ignore_class])


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_classes": 0}, "num_classes is 0; it must be at least 1"),
        ({"cutoffs": "best"}, "cutoffs is 'best'; it must be 'auto'"),
        ({"cutoffs": -1}, "cutoffs is -1; it must be at least 0"),
        ({"cutoffs": [5, 5]}, r"cutoffs\[1\] is 5; it must be above 5"),
        ({"cutoffs": [0]}, r"cutoffs\[0\] is 0; it must be above 0"),
        ({"cutoffs": [5, 20]}, r"cutoffs\[1\] is 20; .* below the 20 classes"),
        ({"cutoffs": [2.5]}, "cutoffs must hold integers"),
        ({"counts": np.ones(19)}, "counts has 19 entries; .* 20"),
        ({"counts": -np.ones(20)}, "the count of class 0 is -1.0"),
        ({"div_value": 0.5}, "div_value is 0.5; it must be .* at least 1"),
        ({"div_value": np.inf}, "div_value is inf"),
        ({"div_value": "4"}, "div_value is '4'"),
        ({"use_bias": "tail"}, "use_bias is 'tail'; it must be one of"),
        ({"width": 0}, "width is 0; it must be at least 1"),
        ({"batch": 0}, "batch is 0; it must be at least 1"),
        ({"cutoffs": [9], "tail": "deep"}, "tail is 'deep'; it must be"),
        ({"cutoffs": [9], "tail": 1}, "tail is 1; it must be at least 2"),
        ({"cutoffs": [9], "tail": []}, "tail lists 0 tails"),
        (
            {"cutoffs": [9], "tail": Tree.two_level(10)},
            "tail 0 is a tree of 10 classes; between its cutoffs there are 11",
        ),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        AdaptiveSoftmax(**{"num_classes": 20, **arguments})


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"cutoffs": [3, 5], "div_value": 4}, "tail 2 has no width left"),
        ({"cutoffs": [3, 5, 7], "div_value": 1e200}, "tail 1 has no width"),
        ({"cutoffs": 19}, "cutoffs = 19: .* at most 18"),
        ({"cutoffs": 2, "tail": ["flat"] * 2}, "needs a list of cutoffs"),
        ({"tail": Tree.two_level(15)}, "needs a list of cutoffs"),
    ],
)
def test_bad_arguments_of_a_build(arguments, message):
    with pytest.raises(ValueError, match=message):
        AdaptiveSoftmax(20, **arguments).build([None, 12])


def test_bad_labels():
    """The error names the position, the value and the range, everywhere."""
    layer = make(ignore_class=-2)
    x, labels = make_inputs(layer)
    model = keras.Sequential([keras.Input([12]), layer])
    model.compile("sgd", loss=layer.loss)
    for call in (
        layer,
        tf.function(lambda *a: layer(*a)),
        lambda *a: model.fit(*a, shuffle=False, verbose=0),
    ):
        for label in (-1, 40, 2**40):
            labels[17] = label
            message = rf"labels must be in \[0, 40\)(.|\n)*17(.|\n)*{label}\D"
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                call(x, labels)
    with pytest.raises(TypeError, match="labels must be integers"):
        layer(x, labels.astype("f4"))
    with pytest.raises(ValueError, match="labels, of shape"):
        layer(x, labels[:5])
