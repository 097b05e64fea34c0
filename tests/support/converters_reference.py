"""Models of other libraries, and what these make of them, for the tests.

Independent of `tf_hsm.converters`: codes are made by search and walked one
class at a time, and a file is written field by field.
"""

import pathlib
import struct
import types

import numpy as np

import tf_hsm
from tf_hsm import converters

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/converters"
# fastText adds this to the probability at each inner node.
FLOOR = 1e-5
# gensim looks logits up in a table, and so is off by as much.
TABLE_ERROR = 0.2


def log_probs(model, inputs):
    """Returns `[B, N]`, log p of every class for each input."""
    num_classes = model.tree.num_classes
    labels = np.tile(np.arange(num_classes), [len(inputs), 1])
    inputs = np.repeat(inputs[:, np.newaxis], num_classes, axis=1)
    return -tf_hsm.hierarchical_softmax_loss(
        model.weights, model.biases, labels, inputs, model.tree
    ).numpy()


def walk(paths, vectors, inputs, floor=0.0):
    """As `log_probs`, down a Huffman code in float64.

    Args:
      paths: for each class its inner nodes, and a sign for each: that of the
        logit in sigmoid(sign * logit).
      vectors: `[nodes, D]`.
      inputs: `[B, D]`.
      floor: is added to each probability.
    """
    logits = inputs.astype(np.float64) @ vectors.astype(np.float64).T
    columns = [
        np.log(1 / (1 + np.exp(-signs * logits[:, nodes])) + floor).sum(axis=1)
        for nodes, signs in paths
    ]
    return np.stack(columns, axis=1)


def fasttext_paths(counts):
    """Makes the Huffman code of descending counts by looking at all nodes.

    Ties go to nodes made by a merge, in their order, then to leaves from the
    last one back. The second of two has the bit 1: the sign is plus.
    """
    paths = [([], []) for _ in counts]
    nodes = [(n, 1, -c, [c]) for c, n in enumerate(counts)]
    for merge in range(len(counts) - 1):
        members, total = [], 0
        for sign in (-1, 1):
            smallest = min(nodes)
            nodes.remove(smallest)
            for c in smallest[-1]:
                paths[c][0].append(merge)
                paths[c][1].append(sign)
            members += smallest[-1]
            total += smallest[0]
        nodes.append((total, 0, merge, members))
    return [
        (np.array(nodes, np.int64), np.array(signs)) for nodes, signs in paths
    ]


def fasttext_outputs(data, rows, dim):
    """Returns the output matrix, which a file of fastText ends with."""
    return np.frombuffer(data[-4 * rows * dim :], "<f4").reshape(rows, dim)


def fasttext_bytes(
    counts,
    outputs,
    *,
    version=12,
    supervised=True,
    words=(b"</s>", b"word"),
    maxn=0,
    bucket=0,
    inputs=None,
):
    """Writes a model; labels, or for other models words, have the counts."""
    names = [b"__label__%d" % c for c in range(len(counts))]
    entries = [(text, 1, 0) for text in words] if supervised else []
    entries += [
        (name, n, int(supervised))
        for name, n in zip(names, counts, strict=True)
    ]
    num_words = len(words) if supervised else len(counts)
    dim = outputs.shape[1]
    if inputs is None:
        inputs = np.zeros([num_words + bucket, dim], np.float32)
    parts = [
        struct.pack("<2i", 793712314, version),
        struct.pack("<6i", dim, 5, 1, 1, 5, 1),
        struct.pack("<2i", 1, 3 if supervised else 2),
        struct.pack("<4id", bucket, 1, maxn, 100, 1e-4),
        struct.pack(
            "<3i2q", len(entries), num_words, len(entries) - num_words, 9, -1
        ),
    ]
    for text, count, kind in entries:
        parts.append(text + struct.pack("<bqb", 0, count, kind))
    for matrix in (inputs, outputs):
        parts.append(struct.pack("<b2q", 0, *matrix.shape))
        parts.append(matrix.astype("<f4").tobytes())
    return b"".join(parts)


def convert(tmp_path, data, **options):
    """Converts the bytes of a file of fastText."""
    path = tmp_path / "model.bin"
    path.write_bytes(data)
    return converters.from_fasttext(path, **options)


def check_fasttext(model, outputs, counts, inputs, probs):
    """Compares with probabilities of fastText, NaN where it left one out."""
    paths = fasttext_paths(counts.tolist())
    ours = log_probs(model, inputs)
    exact = walk(paths, outputs, inputs)
    np.testing.assert_allclose(ours, exact, rtol=2e-5, atol=1e-5)
    theirs = np.exp(walk(paths, outputs, inputs, FLOOR))
    known = ~np.isnan(probs)
    assert known.any(axis=1).all()
    # The float32 of fastText leaves a probability at a node off by 6e-8.
    np.testing.assert_allclose(
        theirs[known], probs[known], rtol=1e-5, atol=1e-6
    )
    assert (theirs[~known] < 1.1 * FLOOR).all()
    np.testing.assert_allclose(np.exp(ours)[known], probs[known], atol=1e-4)


class Words:
    """What `from_gensim` reads of gensim's KeyedVectors."""

    def __init__(self, words, vectors, points, codes):
        self.index_to_key = list(words)
        self.vectors = vectors
        self.attributes = {"point": list(points), "code": list(codes)}

    def get_vecattr(self, key, attribute):
        return self.attributes[attribute][self.index_to_key.index(key)]


def golden_gensim():
    """Returns a model with the arrays of one of gensim, and its scores."""
    golden = np.load(GOLDEN / "gensim.npz")
    ends = np.cumsum(golden["lengths"])[:-1]
    wv = Words(
        golden["words"].tolist(),
        golden["vectors"],
        np.split(golden["points"], ends),
        np.split(golden["codes"], ends),
    )
    model = types.SimpleNamespace(hs=1, syn1=golden["syn1"], wv=wv)
    return model, golden["scores"]


def gensim_paths(model):
    """Returns the inner nodes and signs of all words; bit 0 has the plus."""
    return [
        (
            np.asarray(model.wv.get_vecattr(word, "point"), np.int64),
            1.0 - 2.0 * np.asarray(model.wv.get_vecattr(word, "code"), float),
        )
        for word in model.wv.index_to_key
    ]


def check_gensim(model, scores, **options):
    """Compares with the scores of all pairs of words."""
    converted = converters.from_gensim(model, **options)
    assert converted.names == list(model.wv.index_to_key)
    np.testing.assert_array_equal(converted.inputs, model.wv.vectors)
    found = log_probs(converted, converted.inputs)
    exact = walk(gensim_paths(model), model.syn1, model.wv.vectors)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    # A score is log p of each of the two words with the other one as input.
    np.testing.assert_allclose(found + found.T, scores, atol=TABLE_ERROR)
