"""AdaptiveSoftmax in training: losses and gradients, clusters, graphs.

The formulas are in float64.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.support import head_oracle
from tests.support.adaptive_layers import LAYERS, make, make_inputs
from tests.support.training import assert_same, layer_step
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import CostModel, Tree
from tf_hsm.layers import AdaptiveSoftmax


def make_data(layer, shape=(31,)):
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
    check(layer, *make_data(layer))


@pytest.mark.parametrize(
    "shape, label",
    [((0,), 0), ((3, 0), 0), ((6,), 2), ((6,), 11), ((2, 3, 4), None)],
    ids=["empty", "empty_2d", "head_only", "one_tail", "leading"],
)
def test_batches(shape, label):
    """Tails without examples, among them."""
    layer = make("narrow")
    x, drawn = make_data(layer, shape)
    check(layer, x, drawn if label is None else np.full(shape, label))


@pytest.mark.parametrize(
    "ignored, dtype",
    [(-1, "int32"), (3, "int64"), (30, "int32"), (10**6, "int64")],
)
def test_ignore_class(ignored, dtype):
    """A class of a tail, of the head, or none at all."""
    layer = make(ignore_class=ignored)
    x, labels = make_data(layer, (7, 5))
    labels[::2, 1] = ignored
    check(layer, x, labels.astype(dtype), [ignored])


@pytest.mark.parametrize("labels", [np.full(9, -1), [0, 2, 4], [9, 20, 11]])
def test_clusters_without_a_label(labels):
    """Clusters without a label keep weights and slots; the step counts."""
    layer = make("narrow", optimizer=OPTIMIZERS["lazy_adam"](), ignore_class=-1)
    tables = [
        (v, *layer.optimizer.slots(v))
        for v in (layer.head_kernel, *layer.tail_kernels)
    ]
    before = [[v.numpy() for v in table] for table in tables]
    layer_step(layer, make_inputs(len(labels)), np.array(labels))
    after = [[v.numpy() for v in table] for table in tables]
    moved = [
        not np.array_equal(new[0], old[0])
        for new, old in zip(after, before, strict=True)
    ]
    is_class = np.array(labels) >= 0
    tails = {j for j in np.searchsorted([5, 9, 21], labels, "right") if j}
    assert moved == [is_class.any(), *(j in tails for j in (1, 2, 3))]
    for has_moved, new, old in zip(moved, after, before, strict=True):
        if not has_moved:
            assert_same(new, old)
    assert int(layer.optimizer.iterations) == 1


def test_graph_holds_no_arrays_of_classes():
    """The graph captures the arrays, and has no copies as constants."""
    counts = np.random.default_rng(0).integers(99, size=3000)
    layer = AdaptiveSoftmax(
        3000, cutoffs=[500, 1400], div_value=2, counts=counts
    )
    x, labels = make_inputs(31), np.arange(31)
    layer.build(x.shape)
    function = tf.function(lambda *a: (layer(*a), layer.predict_class(a[0])))
    graph = function.get_concrete_function(x, labels).graph
    sizes = [
        op.outputs[0].shape.num_elements()
        for op in graph.get_operations()
        if op.type == "Const"
    ]
    assert max(sizes) < 128


def test_automatic_cutoffs():
    """The cost model chooses them for the batch, the width and the counts."""
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
    tree = Tree.adaptive(counts, num_clusters=2, batch=64, width=32)
    layer = AdaptiveSoftmax(
        20_000, cutoffs=2, div_value=1, counts=counts, batch=64
    )
    layer.build([None, 32])
    assert layer.head_kernel.shape[0] == tree.group_offsets[1]
