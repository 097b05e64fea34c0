"""Options of layers that change what a step needs."""

import dataclasses

import keras
import numpy as np
import pytest

import tf_hsm
from tests.support.estimated_heads import setting_of, total
from tf_hsm.estimation import heads

BATCH = 40


@pytest.mark.parametrize("make", ["adaptive", "sampled", "cut"])
def test_several_labels_repeat_the_inputs(make):
    tree = tf_hsm.Tree.two_level(500)
    layer = {
        "adaptive": lambda: tf_hsm.layers.AdaptiveSoftmax(500, cutoffs=[50]),
        "sampled": lambda: tf_hsm.layers.SampledSoftmax(500, num_sampled=9),
        "cut": lambda: tf_hsm.layers.HierarchicalSoftmax(
            tree, devices=["CPU:0"] * 2
        ),
    }[make]()
    several = dataclasses.replace(setting_of(), labels_per_example=3)
    head = heads.of(layer)
    found = head.parts(several, 16)
    paths = head.parts(setting_of(batch=3 * BATCH), 16)
    assert total(found, "forward") == total(paths, "forward")
    repeated = total(found, "saved_bytes") - total(paths, "saved_bytes")
    assert repeated == pytest.approx(3 * BATCH * 16 * 4)


@pytest.mark.parametrize("kind", ["AdaptiveSoftmax", "SampledSoftmax", "tree"])
def test_class_weights_are_there_twice(kind):
    """As an array of the layer, and as the tensor of a step."""
    weights = np.linspace(0, 1, 500)

    def make(**options):
        if kind == "tree":
            tree = tf_hsm.Tree.two_level(500)
            return tf_hsm.layers.HierarchicalSoftmax(tree, **options)
        if kind == "SampledSoftmax":
            options["num_sampled"] = 9
        return getattr(tf_hsm.layers, kind)(500, **options)

    plain, weighted = (
        total(heads.of(layer).parts(setting_of(), 64), "constant_bytes")
        for layer in (make(), make(class_weights=weights))
    )
    assert weighted - plain == 2 * weights.astype(np.float64).nbytes


def test_a_tied_table_is_counted_once_with_a_dense_gradient():
    embedding = keras.layers.Embedding(5_000, 32)
    head = tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.flat(5_000), tied_to=embedding
    )
    tokens = keras.Input([7], dtype="int32")
    hidden = keras.layers.GRU(32, return_sequences=True)(embedding(tokens))
    model = keras.Model(tokens, head(hidden))
    model.compile("adam", loss=head.loss)
    model.optimizer.build(model.trainable_variables)
    slots = [v for v in model.optimizer.variables if len(v.shape)]
    found = tf_hsm.estimate(model, batch=4, optimizer="adam").parts
    assert sum(p.parameters for p in found) == model.count_params()
    assert sum(p.slot_bytes for p in found) == sum(
        4 * np.prod(v.shape) for v in slots
    )
    (part,) = [p for p in found if p.kind == "HierarchicalSoftmax"]
    assert part.gradient_bytes == 4 * (5_000 * 32 + 5_000)
