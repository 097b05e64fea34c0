"""The comparison with peers; each peer is tested where it is installed."""

import importlib.util

import pytest

import tf_hsm
from benchmarks.common import machine, peer_process
from benchmarks.peers import comparisons, label_trees
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
    monkeypatch, tmp_path
):
    measure_here(monkeypatch)
    report = figures_of("peers", tmp_path, "--workload=tiny", "--repetitions=2")
    assert report["machine"]["threads"] >= 1
    (comparison,) = report["comparisons"]
    assert comparison["workload"] == "tiny"
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


def test_pytorch_takes_a_step_on_the_same_labels(tmp_path):
    comparison = comparisons.adaptive("tiny", tmp_path, 2, 1)
    facts, sample = _run_once(comparison, "pytorch")
    # A head of 100 classes and 2 clusters, tails of width 4 and 1.
    head, *tails = 16 * 102, (16 + 200) * 4, (16 + 700) * 1
    assert facts["parameters"] == head + sum(tails)
    assert sample["pairs"] == 32
    assert sample["seconds"] > 0


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
    comparison = comparisons.skip_gram(10_000, tmp_path, 1, num_classes=500)
    facts, sample = _run_once(comparison, name)
    assert sample["pairs"] == pairs
    assert sample["seconds"] > 0
    assert facts["parameters"] > 0


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


def test_label_trees_learn(monkeypatch):
    measure_here(monkeypatch)
    results = label_trees.compare("python", 1, num_train=300, num_labels=20)
    assert set(results) == {"ours", "napkinXC", "Omikuji", "PECOS"}
    assert "missing" not in results["ours"]
    for result in results.values():
        if "missing" not in result:
            assert result["precisions"][0] > 30 and result["ms"] > 0
