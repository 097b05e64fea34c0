"""AdaptiveSoftmax in training: its clusters, variables and graphs."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.adaptive_layers import make, make_inputs
from tests.support.training import assert_same, layer_step
from tests.support.update_rules import OPTIMIZERS
from tf_hsm import CostModel, Tree
from tf_hsm.layers import AdaptiveSoftmax


@pytest.mark.parametrize("labels", [np.full(9, -1), [0, 2, 4], [9, 20, 11]])
def test_clusters_without_a_label(labels):
    """They do not move, and neither does their state; the step counts."""
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
    """They are captured, not copied in as constants."""
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
    tree = Tree.adaptive(counts, num_clusters=2, batch=64, width=32)
    layer = AdaptiveSoftmax(
        20_000, cutoffs=2, div_value=1, counts=counts, batch=64
    )
    layer.build([None, 32])
    assert layer.head_kernel.shape[0] == tree.group_offsets[1]
