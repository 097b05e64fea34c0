"""Estimates of models whose heads have weights in 8 or 4 bits."""

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.estimates import bytes_of, stacked
from tf_hsm import layers

N = 300
TREE = tf_hsm.Tree.two_level(N)
TAILS = {"cutoffs": [40, 120], "div_value": 2.0, "tail": "two_level"}
PINNED = tf_hsm.Tree.balanced(N, 2).pin()
HEADS = {
    "two levels": (layers.HierarchicalSoftmax, TREE, {}),
    "no biases": (layers.HierarchicalSoftmax, TREE, {"use_bias": False}),
    "pinned": (layers.HierarchicalSoftmax, PINNED, {}),
    "label tree": (layers.LabelTree, TREE, {}),
    "adaptive": (layers.AdaptiveSoftmax, N, TAILS),
}


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("width", [9, 64, 131])
def test_bytes_are_the_bytes_of_the_variables(mode, name, width):
    """Keras quantizes the Dense layer before the head too."""
    make, classes, options = HEADS[name]
    head = make(classes, **options)
    model = stacked((8,), keras.layers.Dense(width), head)
    model.compile("adam", loss=head.loss)
    model.quantize(mode)
    found = tf_hsm.estimate(model, batch=3)
    assert found.parameter_bytes == bytes_of(model.variables)
    alone = tf_hsm.estimate(None, head, width=width, batch=3)
    assert alone.parameter_bytes == bytes_of(head.variables)
    assert found.gradient_bytes == found.slot_bytes == 0
    assert found.setting.slots.optimizer is None
    assert found.flops[0] > 0 and found.flops[1:] == (0, 0)
    assert found.alternatives == ()
    assert "a forward pass of 3 examples" in str(found)
    assert f"not counted: {head.name}" in str(found)


def test_embeddings_stay_floats():
    head = layers.EmbeddingSoftmax(TREE, num_embeddings=20, width=17)
    head(np.arange(3))
    head.quantize("int8")
    found = tf_hsm.estimate(None, head, batch=3)
    assert found.parts[0].parameter_bytes == 20 * 17 * 4
    assert found.parameter_bytes == bytes_of(head.variables)


@pytest.mark.parametrize(
    ("mode", "row_bytes"),
    [("int8", 65 + 4 + 4), ("int4", 33 + 2 * 4 + 4)],
)
@pytest.mark.parametrize("make", [layers.HierarchicalSoftmax, layers.LabelTree])
def test_an_answer_reads_the_rows_on_a_path(mode, row_bytes, make):
    """A path has 2 of the 5 groups of 4 rows."""
    head = make(tf_hsm.Tree.balanced(16, 4))
    head.build([None, 65])
    head.quantize(mode)
    (part,) = tf_hsm.estimate(None, head, width=65, batch=1).parts
    assert part.parameter_bytes == 20 * row_bytes
    assert part.forward.bytes == pytest.approx(8 * row_bytes)
    assert part.forward.flops == pytest.approx(2 * 8 * 65)
    (part,) = tf_hsm.estimate(None, head, width=65, batch=500).parts
    assert part.forward.bytes == pytest.approx(20 * row_bytes)


def test_a_layer_without_variables():
    """Nothing is made: a policy of types says how the weights will lie."""
    head = layers.HierarchicalSoftmax(TREE, dtype="int4/64_from_float32")
    found = tf_hsm.estimate(None, head, width=65, batch=3).parameter_bytes
    assert not head.variables
    head.build([None, 65])
    assert found == bytes_of(head.variables)
    head = layers.HierarchicalSoftmax(TREE, dtype="float8_from_float32")
    with pytest.raises(ValueError, match="no quantized weights for"):
        tf_hsm.estimate(None, head, width=65, batch=3)


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("count", [1, 3])
def test_bytes_of_a_device(mode, count):
    """The top, and the codes of the fullest shard, made or not."""
    plan = tf_hsm.distribute.plan(TREE, ["CPU:0"] * count)
    head = layers.HierarchicalSoftmax(TREE, plan=plan)
    head.build([None, 65])
    head.quantize(mode)
    top, *shards = [
        bytes_of(part.variables()) for part in head._head.tree_heads()
    ]
    assert top + sum(shards) == bytes_of(head.variables)
    alone = layers.HierarchicalSoftmax(TREE, plan=plan, dtype=head.dtype_policy)
    for layer in (head, alone):
        found = tf_hsm.estimate(None, layer, width=65, batch=3)
        parts = [part.parameter_bytes for part in found.parts]
        assert parts == [top, max(shards), 0]
        assert found.gradient_bytes == found.slot_bytes == 0


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_a_forward_has_half_of_the_round_trip(mode):
    """The network of a float head that trains nothing takes as long."""
    plan = tf_hsm.distribute.plan(TREE, ["CPU:0"] * 3)
    policies = None, f"{mode if mode == 'int8' else 'int4/64'}_from_float32"
    alone, quantized = (
        tf_hsm.estimate(
            None,
            layers.HierarchicalSoftmax(TREE, plan=plan, dtype=policy),
            width=65,
            batch=3,
            optimizer=None,
        )
        for policy in policies
    )
    assert quantized.parts[-1].kind == "network"
    assert quantized.seconds[-1] == alone.seconds[-1]
    assert quantized.seconds[-1][0] > 0
