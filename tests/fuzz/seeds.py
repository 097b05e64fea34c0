"""Whole files of each kind, which the fuzzer of readers damages."""

import functools
import gzip
import io
import json
import pathlib
import tempfile

import numpy as np

_GOLDEN = pathlib.Path(__file__).parents[1] / "golden/converters"

_TEXTS = {
    "counts.txt": [
        "60\n30\n6\n3\n1\n",
        "the 60\nof 30\nNew York 6\n猫 1.5\n",
        "the\t6\r\nof\t3e2\r\n\r\n",
        "     60 the\n     30 of\n      6 17\n      1 \n",
        "\ufeff5 6\n7 8\n",
    ],
    "paths.txt": [
        "animal/cat\nanimal/dog\nplant\nstone/猫/b\n",
        "a\r\nb/c\r\n",
    ],
    "extreme.txt": [
        "3 7 9\n4,8 3:0.5 6:1.25\n 2:7\n0\n",
        "1,2,3 0:1 1:-2e3\n5 8:0.125\n",
        "0 0:1\r\n \r\n",
    ],
    "sparse.txt": [
        "3 7\n3:0.5 6:1.25\n\n2:7\n",
        "\ufeff2 2\r\n0:1\r\n\r\n\r\n",
    ],
}


@functools.cache
def saved_models():
    """Models with heads of each kind: bytes of a file, and of the weights."""
    import keras

    from tf_hsm import LabelCounts, layers
    from tf_hsm.tree import Tree

    tree = Tree.huffman(np.arange(1, 10), pinned=True)
    labelled = tree.expand()
    counts = LabelCounts.expected(labelled, np.arange(1, 10), examples=20)
    heads = [
        layers.HierarchicalSoftmax(
            tree, label_smoothing=0.1, optimizer="adagrad", node_labels=True
        ),
        layers.LabelTree(labelled, counts=counts),
        layers.EmbeddingSoftmax(
            tree, num_embeddings=5, width=3, optimizer="rowwise_adagrad"
        ),
    ]
    saved = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.keras"
        for head in heads:
            embeds = isinstance(head, layers.EmbeddingSoftmax)
            inputs = keras.Input([3], dtype="int64" if embeds else None)
            model = keras.Model(inputs, head(inputs))
            model.save(path)
            weights = [w.tobytes() for w in model.get_weights()]
            saved.append((path.read_bytes(), weights))
    return saved


@functools.cache
def files():
    """Returns whole files, a list of their bytes by name."""
    from tf_hsm.tree import Tree

    trees = [
        Tree.huffman(np.arange(20)),
        Tree.huffman(np.arange(7), pinned=True),
        Tree.from_paths([("animal", "cat"), ("animal", "猫"), ("plant",)]),
        Tree.balanced(1, 2),
    ]
    seeds = {
        name: [t.encode() for t in texts] for name, texts in _TEXTS.items()
    }
    for name in ("extreme.txt", "sparse.txt"):
        seeds[name].append(gzip.compress(seeds[name][0]))
    seeds["model.bin"] = [
        (_GOLDEN / name).read_bytes()
        for name in ("supervised.bin", "skip_gram.bin", "quantized.ftz")
    ]
    seeds["config.json"] = [json.dumps(t.get_config()).encode() for t in trees]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tree.npz"
        seeds["tree.npz"] = []
        for tree in trees:
            tree.save(path)
            seeds["tree.npz"].append(path.read_bytes())
    seeds["model.keras"] = [data for data, _ in saved_models()]
    for name, arrays in {
        "counts.npy": [np.arange(9), np.array([0.5, 2], ">f4")],
        "vectors.npy": [np.eye(5, 3), np.asfortranarray(np.ones([4, 2], "f2"))],
    }.items():
        seeds[name] = []
        for array in arrays:
            file = io.BytesIO()
            np.save(file, array)
            seeds[name].append(file.getvalue())
    return seeds
