"""The comparison of word vectors with gensim's, but for gensim itself."""

import types

import numpy as np
import pytest

import tf_hsm
from examples.word2vec import settings
from examples.word2vec.comparison import files, peer, runs, table


def test_loss_of_gensim_is_that_of_the_same_tree():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 1000, 37)
    tree = tf_hsm.Tree.huffman(counts)
    nodes = rng.normal(size=[tree.num_groups, 5])
    weights = np.zeros([tree.num_rows, 5])
    # A code of 0 is the side whose probability is sigmoid(v . x).
    weights[::2] = nodes
    paths = [tree.path(c) for c in range(37)]
    attributes = {
        # gensim's points have one more, for the leaf.
        "point": [np.append(tree.row_groups[path], -1) for path in paths],
        "code": [path % 2 for path in paths],
    }
    model = types.SimpleNamespace(
        syn1=nodes,
        wv=types.SimpleNamespace(
            index_to_key=range(37),
            get_vecattr=lambda name, kind: attributes[kind][name],
        ),
    )
    labels, inputs = rng.integers(0, 37, 9000), rng.normal(size=[9000, 5])
    want = tf_hsm.hierarchical_softmax_loss(weights, None, labels, inputs, tree)
    found = peer.losses(model, labels, inputs)
    np.testing.assert_allclose(found, want, rtol=1e-9)


@pytest.fixture(scope="module")
def corpus_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    for name in range(40):
        lines = rng.integers(0, 30, [20, 12])
        text = "\n".join(" ".join(f"w{k}" for k in line) for line in lines)
        (folder / f"{name}.txt").write_text(f"{text}\nrare{name}")
    return folder


@pytest.mark.parametrize("architecture", settings.ARCHITECTURES)
def test_files(corpus_folder, tmp_path, architecture):
    chosen = settings.Settings(
        corpus=str(corpus_folder), architecture=architecture, window=2
    )
    num_words = files.write_text(tmp_path, chosen)
    lines = files.lines(tmp_path).read_text().splitlines()
    assert sum(len(line.split()) for line in lines) == num_words
    assert {len(line.split()) for line in lines} <= {0, 12}
    assert set(" ".join(lines).split()) == set(map(str, range(30)))
    shuffled = files.lines(tmp_path, shuffled=True).read_text().splitlines()
    assert shuffled != lines and sorted(shuffled) == sorted(lines)
    inputs, labels = files.read_held_out(tmp_path, np.eye(30))
    np.testing.assert_allclose(inputs.sum(1), 1)
    assert inputs.shape == (len(labels), 30)
    # At the ends of 12 words, windows are shorter than 4.
    of_bag = np.count_nonzero(inputs, 1).max()
    assert of_bag == (1 if architecture == "skip_gram" else 4)


def test_nothing_held_out(tmp_path):
    (tmp_path / "one.txt").write_text("a b a b a b\n" * 9 + "rare")
    chosen = settings.Settings(corpus=str(tmp_path / "one.txt"))
    with pytest.raises(ValueError, match="--corpus"):
        files.write_text(tmp_path, chosen)


def test_table():
    rng = np.random.default_rng(0)
    same, other = rng.normal(size=[2, 500, 8])
    done = {
        runs.PEER: [runs.Run(10.0, 2.0, same), runs.Run(30.0, 4.0, same)],
        "sgd": [runs.Run(50.0, 1.0, other), runs.Run(50.0, 1.0, other)],
    }
    _, gensim, ours = table.text(done, same).splitlines()
    assert gensim.split() == ["gensim", "20", "1.00", "3.0000", "100.0%"]
    name, rate, ratio, loss, overlap = ours.split()
    assert (name, rate, ratio, loss) == ("sgd", "50", "2.50", "1.0000")
    assert float(overlap[:-1]) < 10


def test_neighbours_are_the_nearest():
    vectors = np.random.default_rng(0).normal(size=[300, 4])
    found = table.neighbours(vectors)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for i in (0, 150, 299):
        cosines = unit @ unit[i]
        cosines[i] = -2
        assert set(found[i]) == set(np.argsort(cosines)[-10:])
