"""Initial values of tables; large ones are filled by blocks of rows."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import oracle
from tests.support.training import assert_same
from tf_hsm.layers import initial_values


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(initial_values, "MOST_AT_ONCE", 4000)
    monkeypatch.setattr(initial_values, "BLOCK_BYTES", 4 * 10 * 7)


@pytest.mark.parametrize(
    "initializer, dtype",
    [
        *(
            (keras.initializers.GlorotUniform(seed=3), dtype)
            for dtype in ("float32", "float64", "bfloat16", "float16")
        ),
        (keras.initializers.HeNormal(seed=3), "float32"),
        (keras.initializers.VarianceScaling(mode="fan_out", seed=3), "float32"),
        (keras.initializers.RandomNormal(stddev=0.02, seed=3), "float32"),
    ],
)
def test_blocks_have_the_scale_of_the_whole(small_blocks, initializer, dtype):
    shape = (2003, 7)
    filled = initial_values.by_blocks(initializer)(shape, dtype=dtype)
    assert filled.shape == shape and filled.dtype == dtype
    values = tf.cast(filled, tf.float64).numpy()
    whole = tf.cast(initializer(shape, dtype=dtype), tf.float64).numpy()
    assert np.std(values) == pytest.approx(np.std(whole), rel=0.05)
    assert np.abs(values).max() == pytest.approx(np.abs(whole).max(), rel=0.35)
    # No block is like another one, and no row is left out.
    assert len(np.unique(values[:, 0])) > (100 if dtype == "float32" else 50)
    assert np.abs(values).max(axis=1).min() > 0
    again = initial_values.by_blocks(initializer)(shape, dtype=dtype)
    np.testing.assert_array_equal(tf.cast(again, tf.float64), values)


def test_small_tables_are_as_keras_makes_them():
    initializer = keras.initializers.GlorotUniform(seed=3)
    np.testing.assert_array_equal(
        initial_values.by_blocks(initializer)((50, 7)), initializer((50, 7))
    )


def test_other_initializers_are_left_alone(small_blocks):
    class Own(keras.initializers.RandomNormal):
        pass

    for initializer in (
        keras.initializers.Zeros(),
        keras.initializers.Orthogonal(seed=1),
        Own(seed=1),
        np.ones,
    ):
        assert initial_values.by_blocks(initializer) is initializer


@pytest.mark.parametrize(
    "initializer",
    [
        keras.initializers.Orthogonal(seed=1),
        keras.initializers.GlorotUniform(seed=1),
    ],
)
def test_parts_have_other_values_than_each_other(initializer):
    one, two = (
        initial_values.of_part(initializer, 9, 7, 18, number)((9, 7))
        for number in (1, 2)
    )
    assert not np.allclose(one, two)


def test_a_layer_whose_table_is_large(small_blocks):
    """The layer fills its table by blocks, and trains it without a copy."""
    tree = tf_hsm.Tree.two_level(1000)
    initializer = keras.initializers.GlorotUniform(seed=3)
    layer = tf_hsm.layers.HierarchicalSoftmax(
        tree,
        optimizer=tf_hsm.optimizers.SGD(0.5),
        kernel_initializer=initializer,
    )
    inputs = keras.Input((7,))
    model = keras.Model(inputs, layer(inputs))
    model.compile("sgd", layer.loss)
    before = layer.kernel.numpy()
    blocks = initial_values.by_blocks(initializer)(before.shape)
    np.testing.assert_array_equal(before, blocks)
    assert not np.allclose(before, initializer(before.shape))
    address, labels = _address(layer.kernel), np.arange(64)
    model.train_on_batch(np.ones([64, 7], "f4"), labels)
    assert _address(layer.kernel) == address
    moved = np.flatnonzero((layer.kernel.numpy() != before).any(1))
    touched = oracle.touched_rows(tree, labels)
    np.testing.assert_array_equal(moved, touched)
    assert touched.size < tree.num_rows - 800


def _address(variable):
    """Where the numbers of a variable are in memory."""
    return np.asarray(memoryview(variable.value.read_value())).ctypes.data


def test_an_embedding_softmax():
    """word2vec's: small random embeddings, zeros for the tree."""
    width = 6
    tree = tf_hsm.Tree.two_level(30)
    layer = tf_hsm.layers.EmbeddingSoftmax(
        tree, num_embeddings=4_000, width=width
    )
    layer.build()
    embeddings, kernel, bias = layer.get_weights()
    assert not kernel.any() and not bias.any()
    bound = 0.5 / width
    assert -bound <= embeddings.min() < -0.99 * bound
    assert 0.99 * bound < embeddings.max() <= bound


def adaptive(**options):
    options = {"cutoffs": [300, 600], "div_value": 1, **options}
    head = tf_hsm.layers.AdaptiveSoftmax(900, **options)
    head.build([None, 64])
    return head


def test_clusters():
    """Rows are uniform in +-1 / sqrt(their width)."""
    head = adaptive()
    for kernel in (head.head_kernel, *head.tail_kernels):
        assert 0.99 / 8 < abs(kernel.numpy()).max() <= 1 / 8


def test_clusters_with_a_seed():
    """Each has other numbers, which are the same for the same seed."""
    options = {
        "div_value": 2,
        "use_bias": True,
        **{
            f"{name}_initializer": keras.initializers.RandomNormal(seed=seed)
            for seed, name in enumerate(["kernel", "projection", "bias"])
        },
    }
    head, again = adaptive(**options), adaptive(**options)
    assert_same(head.variables, again.variables)
    values = [v.numpy().ravel()[:300] for v in head.variables]
    for one, two in itertools.combinations(values, 2):
        count = min(one.size, two.size)
        assert not np.isin(one[:count], two[:count]).any()


def test_parts_with_a_seed():
    """The biases of each device too."""
    head = tf_hsm.layers.HierarchicalSoftmax(
        tf_hsm.Tree.two_level(64),
        devices=["CPU:0"] * 2,
        bias_initializer=keras.initializers.RandomNormal(seed=5),
    )
    head.build([None, 6])
    biases = [v.numpy() for v in head.variables if v.shape.rank == 1]
    numbers = np.concatenate(biases)
    assert len(biases) == 3 and len(np.unique(numbers)) == numbers.size
