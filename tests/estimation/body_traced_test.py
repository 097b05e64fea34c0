"""Bodies without a formula: layers and models that are traced."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support.estimates import setting_of, stacked
from tf_hsm.estimation import body

layers = keras.layers
BATCH, STEPS = 3, 5
SETTING = setting_of(batch=BATCH, length=STEPS)


def parts_of(model):
    return body.of(model).parts(SETTING)


def part_of(layer, shape=(6,)):
    (part,) = parts_of(stacked(shape, layer))
    return part


class Squares(layers.Layer):
    """A layer of a user's own, which has a loop of four turns."""

    def __init__(self, turns=4):
        super().__init__()
        self.turns = turns

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 7), name="kernel")

    def call(self, x):
        y = tf.matmul(x, self.kernel)
        return tf.while_loop(
            lambda i, y: i < 4,
            lambda i, y: (i + 1, y * y),
            [0, y],
            maximum_iterations=self.turns,
        )[1]


def test_other_layers_are_traced():
    part = part_of(Squares())
    assert part.kind == "Squares"
    assert part.parameters == 42
    # The loop's own comparisons count too.
    assert part.forward.flops >= 2 * BATCH * 42 + 4 * BATCH * 7
    assert part.forward.flops <= 2 * BATCH * 42 + 4 * BATCH * 7 + 20
    assert part.saved_bytes >= 4 * BATCH * 7
    assert part.uncounted == ()
    # Only the maximum says how often a loop runs.
    reason, *_ = part_of(Squares(turns=None)).uncounted
    assert "how often the loop runs is not known" in reason


def test_operations_between_layers_are_traced():
    inputs = keras.Input((STEPS, 6))
    x = keras.ops.matmul(inputs, keras.ops.transpose(inputs, (0, 2, 1)))
    model = keras.Model(inputs, x * 2.0)
    parts = parts_of(model)
    flops = sum(p.forward.flops for p in parts)
    assert flops >= 2 * BATCH * STEPS * STEPS * 6
    assert not any(p.uncounted for p in parts)


def test_masks_and_axes_of_attention_are_traced():
    inputs, mask = keras.Input((5, 8)), keras.Input((5, 5), dtype="bool")
    masked = layers.MultiHeadAttention(2, 4)
    plain = layers.MultiHeadAttention(2, 4)
    model = keras.Model(
        [inputs, mask],
        masked(inputs, inputs, attention_mask=mask) + plain(inputs, inputs),
    )
    one, two = [p for p in parts_of(model) if p.kind == "MultiHeadAttention"]
    assert one.forward.flops == pytest.approx(two.forward.flops, rel=0.25)
    layer = layers.MultiHeadAttention(2, 4, attention_axes=(1, 2))
    part = part_of(lambda images: layer(images, images), (4, 4, 8))
    assert part.forward.flops >= 2 * BATCH * 16 * (4 * 8 * 8 + 2 * 16 * 8)


def test_subclassed_models_are_one_part():
    """With the rows of an embedding, and the name of a head within."""

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            tree = tf_hsm.Tree.two_level(50)
            self.words = layers.Embedding(1000, 8)
            self.dense = layers.Dense(6)
            self.head = tf_hsm.layers.HierarchicalSoftmax(tree, name="mine")

        def call(self, ids):
            return self.head(self.dense(self.words(ids)))

    model = Own()
    model(np.zeros([2, STEPS], np.int32))
    (part,) = parts_of(model)
    assert part.parameters == sum(np.prod(v.shape) for v in model.weights)
    assert part.is_sparse and part.gradient_bytes < 4 * 8000
    assert part.forward.flops >= 2 * BATCH * STEPS * 8 * 6
    assert any(what.startswith("mine: a head") for what in part.uncounted)


def test_what_cannot_be_counted_is_named():
    class Strange(layers.Layer):
        def call(self, x):
            if tf.executing_eagerly() or isinstance(x, keras.KerasTensor):
                return x
            raise RuntimeError("no graph here")

        def compute_output_shape(self, shape):
            return shape

    part = part_of(Strange(name="odd"))
    assert part.name == "odd"
    assert "tracing it failed" in part.uncounted[0]


def test_branches_count_as_the_largest():
    class Switch(layers.Layer):
        def call(self, x):
            return tf.switch_case(
                tf.cast(tf.reduce_sum(x), tf.int32),
                [lambda: x, lambda: tf.matmul(x, x, transpose_b=True) @ x],
            )

    part = part_of(Switch())
    assert part.uncounted == ()
    assert part.forward.flops >= 2 * 2 * BATCH * BATCH * 6


def test_formulas_are_not_for_classes_that_inherit():
    class Own(layers.Dense):
        def call(self, x):
            return super().call(x) + 1

    flops = part_of(Own(4)).forward.flops
    assert flops == 2 * BATCH * 6 * 4 + 2 * BATCH * 4
