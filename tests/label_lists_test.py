"""Lists of labels from multi-hot matrices, against a loop over the rows."""

import types

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm

MATRIX = (np.random.default_rng(0).random([7, 9]) < 0.3).astype(np.int64)
MATRIX[2] = 0


def expected(matrix):
    lists = [np.flatnonzero(row).tolist() for row in matrix]
    size = max(1, *map(len, lists))
    return np.array([its + [-1] * (size - len(its)) for its in lists])


def sparse(matrix):
    """What SciPy's sparse matrices have, in no order, with a stored zero."""
    row, column = np.nonzero(matrix)
    order = np.random.default_rng(1).permutation(row.size)
    coo = types.SimpleNamespace(
        row=np.append(row[order], 2).astype(np.int32),
        col=np.append(column[order], 4).astype(np.int32),
        data=np.append(np.ones(row.size), 0),
        shape=matrix.shape,
    )
    return types.SimpleNamespace(tocoo=lambda: coo)


FORMS = {
    "int64": MATRIX,
    "uint8": MATRIX.astype(np.uint8),
    "bool": MATRIX.astype(bool),
    "float32": MATRIX.astype(np.float32),
    "list": MATRIX.tolist(),
    "scipy": sparse(MATRIX),
    "tensor": tf.constant(MATRIX),
    "sparse tensor": tf.sparse.from_dense(MATRIX),
    "sparse booleans": tf.sparse.from_dense(MATRIX.astype(bool)),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    found = tf_hsm.label_lists(FORMS[name])
    assert tf.is_tensor(found) == ("tensor" in name or "sparse " in name)
    assert found.dtype == "int64"
    np.testing.assert_array_equal(found, expected(MATRIX))


def test_shapes():
    """Sequences of label sets; no examples; no labels at all."""
    sequence = MATRIX[:6].reshape([2, 3, 9])
    its = expected(MATRIX[:6]).reshape([2, 3, -1])
    np.testing.assert_array_equal(tf_hsm.label_lists(sequence), its)
    sparse_sequence = tf.sparse.from_dense(sequence)
    np.testing.assert_array_equal(tf_hsm.label_lists(sparse_sequence), its)
    assert tf_hsm.label_lists(np.zeros([0, 9], int)).shape == (0, 1)
    nothing = tf_hsm.label_lists(np.zeros([2, 9], int))
    np.testing.assert_array_equal(nothing, [[-1], [-1]])


@pytest.mark.parametrize("convert", [tf.constant, tf.sparse.from_dense])
def test_in_a_pipeline(convert):
    """Each batch as by itself."""
    batches = tf.data.Dataset.from_tensor_slices(convert(MATRIX)).batch(3)
    found = [*batches.map(tf_hsm.label_lists)]
    assert len(found) == 3
    for i, batch in enumerate(found):
        its = expected(MATRIX[3 * i : 3 * i + 3])
        np.testing.assert_array_equal(batch, its)


@pytest.mark.parametrize("number", [2, -1, 0.5, np.nan])
def test_what_is_not_multi_hot(number):
    """Counts, lists, probabilities."""
    wrong = MATRIX.astype(float)
    wrong[4, 3] = number
    for form in (wrong, sparse(wrong), tf.sparse.from_dense(wrong)):
        if isinstance(form, types.SimpleNamespace):
            form.tocoo().data[0] = number
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="of 0 and 1 alone"
        ):
            tf_hsm.label_lists(form)
    with pytest.raises(ValueError, match="has no dimension"):
        tf_hsm.label_lists(1)


def test_sparse_entries_in_any_order():
    rows, columns = np.nonzero(MATRIX)
    order = np.random.default_rng(2).permutation(rows.size)
    places = np.stack([rows, columns], 1)[order].astype(np.int64)
    matrix = tf.SparseTensor(places, np.ones(rows.size), MATRIX.shape)
    for convert in (tf_hsm.label_lists, tf.function(tf_hsm.label_lists)):
        np.testing.assert_array_equal(convert(matrix), expected(MATRIX))


def test_refused_forms():
    """An entry that is there twice would be a 2 in the dense form."""
    twice = tf.SparseTensor([[0, 1], [1, 2], [0, 1]], np.ones(3), [2, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="once, but has"):
        tf_hsm.label_lists(twice)
    with pytest.raises(TypeError, match="take ragged lists of labels as they"):
        tf_hsm.label_lists(tf.ragged.constant([[0, 1], [1]]))


@pytest.mark.parametrize(
    "call, instead",
    [
        (lambda m: tf_hsm.Tree.from_embeddings(m), r"vectors\.toarray"),
        (lambda m: tf_hsm.Tree.from_data(m), "label_lists"),
        (lambda m: tf_hsm.Tree.from_data([1], m), "label_lists"),
        (
            lambda m: tf_hsm.LabelCounts.of(tf_hsm.Tree.two_level(9), m),
            "label_lists",
        ),
        (lambda m: tf_hsm.Tree.from_counts(m), r"np\.ravel"),
        (
            lambda m: tf_hsm.layers.HierarchicalSoftmax(
                tf_hsm.Tree.two_level(9), class_weights=m
            ),
            r"np\.ravel",
        ),
    ],
)
def test_sparse_matrices_elsewhere(call, instead):
    class Matrix:
        shape = MATRIX.shape

        def tocsr(self):
            return self

    with pytest.raises(
        ValueError, match=f"but are a Matrix .* give .*{instead}"
    ):
        call(Matrix())
