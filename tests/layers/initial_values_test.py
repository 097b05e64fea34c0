"""Initial values of tables, and biases as frequent as the classes are.

Large tables are filled by blocks of rows.
"""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import oracle
from tests.support.training import assert_same
from tf_hsm import LabelCounts, Tree, optimizers
from tf_hsm.layers import (
    AdaptiveSoftmax,
    EmbeddingSoftmax,
    HierarchicalSoftmax,
    LabelTree,
    SampledSoftmax,
    initial_values,
)


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


def test_a_layer_whose_table_is_large(small_blocks):
    """The layer fills its table by blocks, and trains it without a copy."""
    tree = Tree.two_level(1000)
    initializer = keras.initializers.GlorotUniform(seed=3)
    layer = HierarchicalSoftmax(
        tree,
        optimizer=optimizers.SGD(0.5),
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
    tree = Tree.two_level(30)
    layer = EmbeddingSoftmax(tree, num_embeddings=4_000, width=width)
    layer.build()
    embeddings, kernel, bias = layer.get_weights()
    assert not kernel.any() and not bias.any()
    bound = 0.5 / width
    assert -bound <= embeddings.min() < -0.99 * bound
    assert 0.99 * bound < embeddings.max() <= bound


def adaptive(**options):
    options = {"cutoffs": [300, 600], "div_value": 1, **options}
    head = AdaptiveSoftmax(900, **options)
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


@pytest.mark.parametrize("kind", ["Orthogonal", "GlorotUniform"])
def test_parts_with_a_seed(kind):
    """Each device has other numbers."""
    head = HierarchicalSoftmax(
        Tree.two_level(64),
        devices=["CPU:0"] * 2,
        kernel_initializer=getattr(keras.initializers, kind)(seed=1),
        bias_initializer=keras.initializers.RandomNormal(seed=5),
    )
    head.build([None, 6])
    for rank in (1, 2):
        parts = [v.numpy() for v in head.variables if v.shape.rank == rank]
        numbers = np.concatenate([part.ravel() for part in parts])
        assert len(parts) == 3 and np.unique(numbers).size == numbers.size


@pytest.mark.parametrize(
    "initializer",
    [
        keras.initializers.GlorotUniform(seed=1),
        keras.initializers.HeNormal(seed=1),
        keras.initializers.GlorotNormal(seed=keras.random.SeedGenerator(1)),
        keras.initializers.VarianceScaling(0.7, "fan_out", seed=1),
        keras.initializers.RandomNormal(0.1, 0.3, seed=1),
        keras.initializers.TruncatedNormal(0.1, 0.3, seed=1),
        keras.initializers.RandomUniform(-0.2, 0.5, seed=1),
    ],
)
def test_weights_begin_as_differences_do(initializer):
    rows, width = 4_000, 50
    table = initializer([2 * rows, width]).numpy()
    differences = table[0::2] - table[1::2]
    pairs = initial_values.of_pairs(initializer, rows, width)(
        [rows, width]
    ).numpy()
    assert pairs.std() == pytest.approx(differences.std(), rel=0.02)
    assert pairs.mean() == pytest.approx(table.mean(), abs=0.005)


def test_a_pinned_layer_begins_so():
    tree = Tree.balanced(900, 2).pin()
    wide = 60
    stddevs = []
    for each in (tree, tree.expand()):
        layers = (
            HierarchicalSoftmax(each),
            AdaptiveSoftmax(
                903, cutoffs=[3], div_value=1.0, tail=[each], use_bias=False
            ),
        )
        for layer in layers:
            layer.build([None, wide])
        tables = layers[0].kernel.numpy(), layers[1].tail_kernels[0].numpy()
        if not each.pinned:
            tables = [each.pin_rows(table) for table in tables]
        stddevs.append([table.std() for table in tables])
    np.testing.assert_allclose(*stddevs, rtol=0.02)
    # Values that somebody chose stay as they are.
    head = HierarchicalSoftmax(tree, kernel_initializer="ones")
    head.build([None, wide])
    assert (head.kernel.numpy() == 1).all()


COUNTS = np.array([3, 50, 1, 7, 7, 20, 2, 900, 4, 6])
UNEVEN = Tree.from_nested([0, [1, [2, 3, 4], [5, [6, 7]]], [8, 9]])


def test_what_never_occurs_is_half_as_frequent_as_the_rarest():
    tree = Tree.two_level(4)
    prior = tree.log_prior([0, 8, 0, 2])
    expected = tree.log_prior([1, 8, 1, 2])
    np.testing.assert_allclose(prior, expected, rtol=1e-14)
    np.testing.assert_allclose(np.exp(tree.log_prior([0] * 4)), 0.5)
    # Each group is a distribution of its own.
    groups = np.bincount(UNEVEN.row_groups, np.exp(UNEVEN.log_prior(COUNTS)))
    np.testing.assert_allclose(groups, 1, rtol=1e-13)
    with pytest.raises(ValueError, match="of class 1 is -1"):
        tree.log_prior([1, -1, 1, 1])


HEADS = {
    "uneven": lambda **options: HierarchicalSoftmax(UNEVEN, **options),
    "pinned": lambda **options: HierarchicalSoftmax(
        Tree.balanced(10, 2).pin(), **options
    ),
    "embedding": lambda **options: EmbeddingSoftmax(
        UNEVEN, num_embeddings=4, width=4, **options
    ),
    **{
        f"{tail} tails": lambda tail=tail, **options: AdaptiveSoftmax(
            10, cutoffs=[2, 5], div_value=2, tail=tail, **options
        )
        for tail in ("flat", "two_level", 2)
    },
    "sampled": lambda **options: SampledSoftmax(10, num_sampled=3, **options),
}


@pytest.mark.parametrize(
    "name, dtype, in_function",
    [
        *((name, "float32", False) for name in HEADS),
        ("uneven", "float32", True),
        ("uneven", "bfloat16", False),
    ],
)
def test_a_layer_begins_with_its_counts(name, dtype, in_function):
    """A copy by its config has zeros, as another initializer may be wanted."""
    head = HEADS[name](counts=COUNTS, dtype=dtype)
    hidden = tf.zeros([1, 4], dtype)
    (tf.function(head) if in_function else head)(hidden)
    log_probs = head.log_probs(hidden)
    np.testing.assert_allclose(
        np.exp(log_probs[0]),
        COUNTS / COUNTS.sum(),
        rtol=1e-5 if dtype == "float32" else 3e-2,
    )
    copy = type(head).from_config(head.get_config())
    copy.build([None, 4])
    biases = [v for v in copy.weights if "bias" in v.path]
    assert biases and not any(np.any(v.numpy()) for v in biases)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_label_tree_begins_with_its_counts(dtype):
    """label_counts_test.py has the log-odds."""
    tree = UNEVEN
    labels = np.random.default_rng(0).integers(-20, 10, size=[60, 4])
    counts = LabelCounts.of(tree, labels)
    head = LabelTree(tree, counts=counts, dtype=dtype)
    copy = LabelTree.from_config(head.get_config())
    for layer, expected in ((head, counts.log_odds()), (copy, 0)):
        layer.build([None, 4])
        bias = tf.cast(layer.bias.value, "float64")
        np.testing.assert_allclose(
            bias, expected, rtol=1e-6 if dtype == "float32" else 1e-2
        )
