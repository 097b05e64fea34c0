"""Losses and gradients of AdaptiveSoftmax, against the formulas in float64."""

import functools
import itertools

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.support import head_oracle
from tests.support.adaptive_layers import LAYERS, make
from tests.support.in_place_models import head_state
from tests.support.training import assert_same, layer_step
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import Tree
from tf_hsm.layers import AdaptiveSoftmax


def make_inputs(layer, shape=(31,)):
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=[*shape, 12]).astype(layer.compute_dtype)
    return inputs, rng.integers(layer.num_classes, size=shape)


def check(layer, x, labels, ignore=()):
    """Compares losses and gradients with the formulas."""
    losses, (dx, *gradients) = head_oracle.slopes(
        layer, tf.constant(x), lambda inputs: layer(inputs, labels)
    )
    assert losses.dtype == layer.loss_dtype and losses.shape == labels.shape
    counted = np.where(np.isin(labels, ignore), -1, labels).reshape(-1, 1)
    wanted, (wanted_dx, *wanted_gradients) = head_oracle.slopes(
        layer,
        tf.constant(x.reshape(-1, x.shape[-1]).astype(float)),
        lambda inputs: head_oracle.losses(layer, inputs, counted),
    )
    # Sums have the type of the losses, and gradients are rounded at the end.
    rounding = 32 * float(ml_dtypes.finfo(layer.loss_dtype).eps)
    assert_near(tf.reshape(losses, [-1]), wanted, rounding)
    rounding = max(rounding, 4 * float(ml_dtypes.finfo(dx.dtype.name).eps))
    assert_near(tf.reshape(dx, wanted_dx.shape), wanted_dx, rounding)
    for variable, gradient, its in zip(
        layer.weights, gradients, wanted_gradients, strict=True
    ):
        its = tf.convert_to_tensor(its)
        if isinstance(gradient, tf.IndexedSlices):
            rows = gradient.indices.numpy()
            assert (np.diff(rows) > 0).all(), variable.path
            assert not np.delete(its, rows, 0).any()
        else:
            assert "projection" in variable.path
        assert_near(tf.convert_to_tensor(gradient), its, rounding)


def assert_near(found, wanted, rounding):
    """Asserts errors below `rounding` times the largest number, or 1."""
    found, wanted = (tf.cast(a, "float64").numpy() for a in (found, wanted))
    bound = rounding * np.abs(wanted).max(initial=1)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize(
    "name, dtype",
    [
        *itertools.product(LAYERS, ["float64", "float32"]),
        *itertools.product(
            ["permuted", "trees", "as_wide"], ["bfloat16", "float16"]
        ),
    ],
)
def test_losses_and_gradients(name, dtype):
    """In float64 the tolerance leaves no room for a wrong formula."""
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
            {
                "cutoffs": [9],
                "tail": [Tree.huffman(range(11)).pin()],
                "width": 8,
            },
            r"tail 0 is pinned.*expand\(\)",
        ),
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


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    "label, kind", [(-1, "eager"), (40, "function"), (2**40, "fit")]
)
def test_a_bad_label_moves_nothing(label, kind, own):
    """The error names the position, the value and the range."""
    optimizer = OPTIMIZERS["lazy_adam"]() if own else None
    layer = make(ignore_class=-2, optimizer=optimizer)
    x, labels = make_inputs(layer)
    model = keras.Sequential([keras.Input([12]), layer])
    model.compile("sgd", loss=layer.loss)
    call = {
        "eager": functools.partial(layer_step, layer),
        "function": tf.function(functools.partial(layer_step, layer)),
        "fit": functools.partial(model.fit, shuffle=False, verbose=0),
    }[kind]
    wrong = np.where(np.arange(31) == 17, label, labels)
    before = head_state(model)
    message = rf"labels must be in \[0, 40\)(.|\n)*17(.|\n)*{label}\D"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(x, wrong)
    assert_same(head_state(model), before)
    call(x, labels)
    assert not own or int(layer.optimizer.iterations) == 1
