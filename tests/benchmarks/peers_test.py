"""The comparison with peers; each peer is tested where it is installed."""

import importlib.util

import numpy as np
import pytest

import tf_hsm
from benchmarks.common import machine, peer_process
from benchmarks.peers import comparisons, label_examples, label_trees, skip_gram
from tests.support.benchmarks import PeerHere, figures_of, measure_here


@pytest.fixture(autouse=True)
def all_threads(monkeypatch):
    """This process keeps its threads; processes of their own set them."""
    monkeypatch.setattr(machine, "use_threads", lambda threads: None)


def _run_once(comparison, name):
    """Peers are in a process of their own, apart from TensorFlow."""
    module, spec = comparison.implementations[name]
    start = PeerHere if name.startswith("ours") else peer_process.Process
    try:
        process = start(module, spec)
    except ModuleNotFoundError as error:
        pytest.skip(f"{error.name} is not installed")
    try:
        return process.facts, process.run(comparison.phases[-1], 0)
    finally:
        process.close()


def test_it_measures_ours_and_says_which_peers_are_not_installed(
    monkeypatch, tmp_path, capsys
):
    measure_here(monkeypatch)
    report = figures_of("peers", tmp_path, "--workload=tiny", "--repetitions=2")
    output = capsys.readouterr().out
    assert report["machine"]["threads"] >= 1
    assert "TensorFlow" in output.splitlines()[0]
    (comparison,) = report["comparisons"]
    assert comparison["workload"] == "tiny"
    assert comparison["title"] in output
    ours = comparison["results"]["ours"]
    adaptive = comparison["results"]["ours, adaptive"]
    # The parameters are those of PyTorch's, see below.
    assert adaptive["parameters"] == 16 * 102 + (16 + 200) * 4 + (16 + 700)
    for phase in ("forward", "forward_backward"):
        assert len(ours["phases"][phase]["samples_ms"]) == 2
        assert ours["phases"][phase]["ms"] > 0
    # 1,000 leaves below 32 groups, each row with its bias.
    assert ours["parameters"] == 1_032 * 17
    if importlib.util.find_spec("torch") is None:
        assert comparison["results"]["pytorch"] == {"missing": "torch"}
        assert "pytorch is not installed: pip install torch" in output


def test_pytorch_takes_a_step_on_the_same_labels(tmp_path):
    comparison = comparisons.adaptive("tiny", tmp_path, 2, 1)
    facts, sample = _run_once(comparison, "pytorch")
    # A head of 100 classes and 2 clusters, tails of width 4 and 1.
    head, *tails = 16 * 102, (16 + 200) * 4, (16 + 700) * 1
    assert facts["parameters"] == head + sum(tails)
    assert sample["pairs"] == 32
    assert sample["seconds"] > 0


def _skip_gram(folder):
    return comparisons.skip_gram(500, 10_000, folder, 1)


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("ours, skip-gram", 20 * 8_192),
        ("gensim", 10 * 2 * 999),
        # The end of a line is a word.
        ("fasttext", 10 * 2 * 1_000),
    ],
)
def test_a_turn_counts_its_pairs(tmp_path, name, pairs):
    facts, sample = _run_once(_skip_gram(tmp_path), name)
    assert sample["pairs"] == pairs
    assert sample["seconds"] > 0
    assert facts["parameters"] > 0


def test_the_parameters_of_a_skip_gram_model_are_counted(tmp_path):
    comparison = _skip_gram(tmp_path)
    ours, pinned = (
        _run_once(comparison, name)[0]["parameters"]
        for name in ("ours, skip-gram", "ours, pinned")
    )
    classes = np.load(tmp_path / "words.npy").max() + 1
    # A binary tree has two rows for each class but one; then input vectors.
    assert ours == 300 * (2 * (classes - 1) + classes)
    # A vector per node, as the peers have.
    assert pinned == 300 * (classes - 1 + classes)


def test_a_training_that_diverges_is_an_error(tmp_path):
    """Its figures would be those of other code."""
    comparison = _skip_gram(tmp_path)
    module, spec = comparison.implementations["ours, skip-gram"]
    peer = PeerHere(module, spec | {"learning_rate": 1e9})
    with pytest.raises(RuntimeError, match="the training diverged: its loss"):
        peer.run("train", 0)


def test_the_corpus_is_numbered_by_frequency(tmp_path):
    _skip_gram(tmp_path)
    words = np.load(tmp_path / "words.npy")
    assert words.shape == (10, 1_000)
    counts = np.bincount(words.ravel())
    assert counts[-1] > 0
    assert (np.diff(counts) <= 0).all()
    np.testing.assert_array_equal(np.loadtxt(tmp_path / "words.txt"), words)


def test_batches_hold_both_directions_of_each_pair_of_neighbours():
    batches = skip_gram.batches(np.array([[0, 1, 2], [3, 4, 5]]), 4)
    pairs = batches.transpose(0, 2, 1).reshape(-1, 2).tolist()
    expected = [[0, 1], [1, 2], [3, 4], [4, 5]]
    assert sorted(pairs) == sorted(expected + [pair[::-1] for pair in expected])


def test_a_process_that_ends_early_is_an_error():
    # Not a module of an implementation.
    with pytest.raises(RuntimeError, match=r"peers\.report ended with 1"):
        peer_process.Process("peers.report", {"threads": 1})


def test_labels_of_an_example_are_different_ones_of_one_group():
    inputs, labels = label_examples.Source(50, 8, 4).draw(200, 1)
    np.testing.assert_allclose(np.linalg.norm(inputs, axis=1), 1, rtol=1e-5)
    sizes = set()
    for row in labels:
        its = row[row >= 0]
        assert (
            len(set(its)) == its.size
            and len({*(its // label_examples.GROUP)}) == 1
        )
        sizes.add(its.size)
    assert sizes == {1, 2, 3, 4}


def test_precisions_of_labels():
    labels = np.array([[3, 1, -1], [2, -1, -1]])
    found = np.array([[3, 9, 1, 8, 7], [0, 2, 4, 5, 6]])
    np.testing.assert_allclose(
        label_examples.precisions(labels, found),
        [50, 100 * 3 / 6, 100 * 3 / 10],
    )


def test_napkinxc_gets_the_same_tree():
    tree = tf_hsm.Tree.balanced(50, [5, 10])
    nodes = label_trees.nodes_of(tree)
    assert nodes[0] == (-1, 0, -1) and len(nodes) == 1 + tree.num_rows
    leaf = {label: node for _, node, label in nodes if label >= 0}
    parent = {node: above for above, node, _ in nodes}
    for c in range(50):
        path, node = [], leaf[c]
        while node > 0:
            path.append(node - 1)
            node = parent[node]
        assert path[::-1] == tree.path(c).tolist()


def test_label_trees_learn_and_missing_ones_are_named(monkeypatch):
    measure_here(monkeypatch)
    results = label_trees.compare("python", 1, num_train=300, num_labels=20)
    text = label_trees.text(results)
    assert set(results) == {"ours", "napkinXC", "Omikuji", "PECOS"}
    for name, result in results.items():
        if "missing" in result:
            assert f"{name} is not installed: pip install" in text
        else:
            assert result["precisions"][0] > 30 and result["ms"] > 0
            assert f"\n{name} " in text
    assert "precisions" in results["ours"]
