"""Converted models on pinned trees: the vectors of the model, to the bit."""

import numpy as np

from tests.support.converters_reference import (
    GOLDEN,
    fasttext_outputs,
    fasttext_paths,
    gensim_paths,
    golden_gensim,
)
from tf_hsm import converters


def of_paths(tree, paths, vectors):
    """The vector of each group, `[G, D]`, by the paths of the classes."""
    found = np.full([tree.num_groups, vectors.shape[1]], np.nan, vectors.dtype)
    for c, (nodes, signs) in enumerate(paths):
        rows = tree.path(c)
        # The first row of a group has the logit of the vector as it is.
        np.testing.assert_array_equal(rows % 2 == 0, signs > 0)
        found[rows // 2] = vectors[nodes]
    return found


def test_pinned_weights_are_the_bits_of_the_model():
    model, _ = golden_gensim()
    converted = converters.from_gensim(model)
    assert converted.tree.pinned
    wanted = of_paths(converted.tree, gensim_paths(model), model.syn1)
    assert converted.weights.tobytes() == wanted.tobytes()
    assert sorted(map(bytes, converted.weights)) == sorted(
        map(bytes, model.syn1[: len(converted.weights)])
    )

    golden = np.load(GOLDEN / "fasttext.npz")
    path = GOLDEN / "supervised.bin"
    converted = converters.from_fasttext(path)
    outputs = fasttext_outputs(path.read_bytes(), len(converted.names), 5)
    paths = [
        (nodes[::-1], signs[::-1])  # From the root on.
        for nodes, signs in fasttext_paths(golden["label_counts"].tolist())
    ]
    wanted = of_paths(converted.tree, paths, outputs)
    assert converted.weights.tobytes() == wanted.tobytes()
