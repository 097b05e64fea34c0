"""`python -m tf_hsm tree`: what it makes, prints and refuses."""

import dataclasses
import os
import re
import time

import numpy as np
import pytest

from tests.support import programs
from tf_hsm import distribute, estimation
from tf_hsm.cli import program, tree_command
from tf_hsm.cost.model import CostModel
from tf_hsm.tree import Tree
from tf_hsm.tree.builders import progress

WORDS = "the 60\nof 30\nNew York 6\nand 3\n猫 1\n"
COUNTS = [60, 30, 6, 3, 1]
NAMES = ["the", "of", "New York", "and", "猫"]
LABELS = np.repeat(np.arange(300), 4)
CONTEXTS = LABELS[:, None] // [10, 40]
VECTORS = [[1.0, 0], [0, 1], [1, 0.1], [0.1, 1], [0, 2]]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # However slow the machine is, no line of progress.
    for module in (tree_command, progress):
        monkeypatch.setattr(module, "_SECONDS", 10**6)
    write("words.txt", WORDS)
    write("paths.txt", "animal/cat\nanimal/dog\nplant\nstone/a\nstone/b")
    np.save("counts.npy", COUNTS)
    np.save("vectors.npy", VECTORS)
    np.savez("examples.npz", labels=LABELS, contexts=CONTEXTS)
    return tmp_path


def write(name, text):
    with open(name, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def run(capsys, *arguments):
    return programs.outcome(capsys, program.main, "tree", *arguments)


def printed(capsys, *arguments):
    """The lines of a command that succeeds, and writes no error."""
    status, out, err = run(capsys, *arguments)
    assert (status, err) == (0, [])
    return out


BUILT = {
    "two_level": lambda: Tree.two_level(5),
    "balanced:2": lambda: Tree.balanced(5, 2),
    "balanced:2,3": lambda: Tree.balanced(5, [2, 3]),
    "huffman": lambda: Tree.huffman(COUNTS),
    "huffman:3": lambda: Tree.huffman(COUNTS, branching=3),
    "adaptive": lambda: Tree.adaptive(COUNTS),
    "adaptive:2,4": lambda: Tree.adaptive(COUNTS, cutoffs=[2, 4]),
    "embeddings:vectors.npy": lambda: Tree.from_embeddings(VECTORS),
    "paths:paths.txt": lambda: Tree.from_nested([[0, 1], 2, [3, 4]]),
}


@pytest.mark.parametrize("kind", BUILT)
@pytest.mark.parametrize("counts", ["words.txt", "counts.npy"])
def test_build(capsys, kind, counts):
    out = printed(
        capsys, "build", kind, f"--counts={counts}", "--output=tree.npz"
    )
    tree = Tree.load("tree.npz")
    assert out == [f"tree.npz: {tree}"]
    assert tree == BUILT[kind]()
    if kind == "paths:paths.txt":
        assert tree.path_names(1) == ["animal", "dog"]
    elif counts == "words.txt":
        assert [tree.class_name(c) for c in range(5)] == NAMES
    else:
        assert tree.names is None


def test_build_options(capsys):
    for arguments, expected in (
        (["adaptive:1", "--tail=2"], {"cutoffs": [1], "tail": 2}),
        (
            ["adaptive:1", "--tail=two_level"],
            {"cutoffs": [1], "tail": "two_level"},
        ),
        (["adaptive", "--batch=9", "--width=3"], {"batch": 9, "width": 3}),
    ):
        arguments += ["--counts=counts.npy", "--output=tree.npz"]
        assert run(capsys, "build", *arguments)[0] == 0
        assert Tree.load("tree.npz") == Tree.adaptive(COUNTS, **expected)
    for arguments, expected in (
        (["--branching=2", "--seed=3"], {"branching": 2, "seed": 3}),
        (["--branching=3,2"], {"branching": [3, 2]}),
        (["--metric=euclidean"], {"metric": "euclidean"}),
    ):
        arguments += ["embeddings:vectors.npy", "--output=tree.npz"]
        assert run(capsys, "build", *arguments)[0] == 0
        assert Tree.load("tree.npz") == Tree.from_embeddings(
            VECTORS, **expected
        )


def test_classes_that_are_alike(capsys):
    for kind, tree in (
        ("two_level", Tree.two_level(50)),
        ("balanced:7", Tree.balanced(50, 7)),
        ("huffman:3", Tree.huffman(np.ones(50), branching=3)),
        ("huffman:pinned", Tree.huffman(np.ones(50), pinned=True)),
        ("adaptive", Tree.adaptive(np.ones(50))),
    ):
        flags = ["--num_classes=50", "--output=tree.npz"]
        assert run(capsys, "build", kind, *flags)[0] == 0
        assert Tree.load("tree.npz") == tree


def test_inspect(capsys):
    tree = Tree.huffman(COUNTS).with_class_names(NAMES)
    tree.save("tree.npz")
    flags = ["--batch=10", "--width=4"]
    out = printed(capsys, "inspect", "tree.npz", *flags)
    text = tree.summary().splitlines()
    cost = str(tree.expected_cost(None, batch=10, width=4)).splitlines()
    assert out == [
        *text,
        "Cost by the tree's counts",
        *(f"  {x}" for x in cost),
    ]
    flags.append("--counts=words.txt")
    out = run(capsys, "inspect", "tree.npz", *flags)[1]
    cost = str(tree.expected_cost(COUNTS, batch=10, width=4)).splitlines()
    assert out == [*text, "Cost by words.txt", *(f"  {x}" for x in cost)]


def test_plot(capsys, folder):
    out = printed(
        capsys,
        *("plot", "huffman", "--counts=words.txt", "--output=tree.svg"),
    )
    assert out == [f"tree.svg: {Tree.huffman(COUNTS)}"]
    assert "New York  6%" in (folder / "tree.svg").read_text("utf-8")


def test_plan(capsys):
    out = printed(
        capsys,
        *("plan", "two_level", "--counts=words.txt", "--devices=2"),
        *("--batch=64", "--width=8", "--top=3", "--slots=2", "--network=1e6"),
    )
    tree = Tree.two_level(5).with_class_names(NAMES)
    options = {"top": 3, "slots": 2, "network": 1e6}
    plan = distribute.plan(tree, 2, counts=COUNTS, batch=64, width=8, **options)
    assert out == str(plan).splitlines()
    out = printed(
        capsys,
        *("plan", "balanced:3", "--num_classes=900", "--replicas=2"),
        *("--batch=64", "--width=8"),
    )
    tree = Tree.balanced(900, 3)
    plan = distribute.plan(tree, replicas=2, batch=64, width=8)
    assert out == str(plan).splitlines()
    for arguments, message in (
        ("--devices=0", "devices is 0;"),
        ("", "--replicas --devices"),
        ("--devices=2 --replicas=2", "not allowed with argument --devices"),
        ("--devices=2 --network=0", "network is 0.0; it must be a positive"),
    ):
        flags = ["--num_classes=9", *arguments.split()]
        status, out, err = run(capsys, "plan", "two_level", *flags)
        assert (status, out, len(err)) == (2, [], 1)
        assert message in err[0]


def test_calibrate(capsys, monkeypatch):
    machine = dataclasses.replace(
        estimation.machines["cpu-2-avx512"], cost_model=CostModel(call=1234.0)
    )
    monkeypatch.setattr(estimation, "calibrate", lambda: machine)
    flags = ["--num_classes=9", "--width=5", "--calibrate"]
    out = run(capsys, "inspect", "two_level", *flags)[1]
    assert "about 1,234 ms" in out[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("build oak --output=t", "oak is no tree: neither a file nor one of"),
        (
            "build huffman --output=t",
            "huffman needs --counts=FILE, --data=FILE or",
        ),
        (
            "build balanced:2 --output=t",
            "balanced needs --counts=FILE, --data=FILE or",
        ),
        ("build balanced --num_classes=3 --output=t", "such as balanced:100"),
        ("build two_level:3 --num_classes=3 --output=t", "takes no value"),
        ("build two_level --num_classes=0 --output=t", "num_classes is 0"),
        ("build huffman --num_classes=-1 --output=t", "counts is empty"),
        ("build huffman:x --num_classes=3 --output=t", "not 'x'"),
        ("build adaptive:1.5 --num_classes=3 --output=t", "a cutoff is an"),
        ("build embeddings --output=t", "embeddings:FILE.npy"),
        ("build embeddings:words.txt --output=t", "words.txt is not an .npy"),
        ("build embeddings:short.npy --output=t", "short.npy is no array"),
        ("build paths --output=t", "paths needs a file"),
        ("build paths:hole.txt --output=t", "hole.txt, line 2 is empty"),
        ("build paths:none.txt --output=t", "No such file"),
        ("inspect words.txt", "cannot load 'words.txt' as a tf_hsm.Tree"),
        ("inspect two_level --counts=empty.txt", "empty.txt is empty"),
        ("inspect two_level --counts=vectors.npy", "counts must have rank 1"),
        ("inspect two_level --counts=.", "Is a directory"),
        (
            "compare paths:paths.txt --num_classes=4",
            "paths:paths.txt has 5 classes, but --num_classes has 4",
        ),
        (
            "inspect paths:word.txt --counts=counts.npy",
            "paths:word.txt has 2 classes, but --counts has 5",
        ),
        (
            "build huffman:pinned --num_classes=1 --output=t",
            "group 0 has 1 rows; every group of a pinned tree has two",
        ),
        ("plot two_level --num_classes=3 --output=t", "suffix must be one of"),
        (f"build two_level --num_classes={10**12} --output=t", "45,000.0 GB"),
        (
            "build two_level --num_classes=3 --output=a/b",
            "the folder of the file does not exist: a/b",
        ),
        (
            "build two_level --num_classes=3 --output=full",
            "the path is a folder, and must be a file: full",
        ),
        ("inspect data --num_classes=3", "data needs --data=FILE.npz"),
        ("inspect data --data=counts.npy", "must be an .npz file with the arr"),
        ("inspect data --data=missing.npz", "missing.npz"),
        (
            "inspect data --data=examples.npz --num_classes=299",
            "a label is 299; it must be below num_classes, 299",
        ),
        # What argparse finds.
        ("build two_level", "arguments are required: --output"),
        ("compare --counts=a --num_classes=3", "not allowed with argument"),
        ("compare --count=a", "unrecognized arguments: --count=a"),
        ("prune", "invalid choice: 'prune'"),
    ],
)
def test_errors_are_one_line(capsys, arguments, message, folder):
    (folder / "short.npy").write_bytes(
        (folder / "vectors.npy").read_bytes()[:99]
    )
    for name, text in (
        ("hole.txt", "a\n\nb"),
        ("empty.txt", "\n\n"),
        ("word.txt", "a 1\nb"),
    ):
        write(name, text)
    (folder / "full").mkdir()
    (folder / "full" / "file").touch()
    before = sorted(os.listdir())
    status, out, err = run(capsys, *arguments.split())
    assert status == 2 and not out
    assert len(err) == 1 and message in err[0], err
    assert err[0].startswith("python -m tf_hsm")
    assert sorted(os.listdir()) == before


def test_progress_is_for_long_work(capsys, monkeypatch):
    with tree_command._progress("waiting"):
        time.sleep(0.05)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(tree_command, "_SECONDS", 0.01)
    with tree_command._progress("waiting"):
        while "waiting (" not in capsys.readouterr().err:
            time.sleep(0.01)


def test_an_interrupt_is_a_sentence(capsys, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    before = sorted(os.listdir())
    flags = ["--num_classes=9", "--output=t"]
    status, out, err = run(capsys, "build", "two_level", *flags)
    assert (status, out, err) == (130, [], ["python -m tf_hsm: interrupted"])
    assert sorted(os.listdir()) == before


def test_counts_of_uniq(capsys):
    write("uniq.txt", "      3 and\n      2 17\n     60 the\n")
    flags = ["--counts=uniq.txt", "--output=tree.npz"]
    assert run(capsys, "build", "huffman", *flags)[0] == 0
    tree = Tree.load("tree.npz")
    assert tree == Tree.huffman([3, 2, 60])
    assert tree.class_of(["the", "17", "and"]).tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ([], "Builds, inspects, compares and draws trees."),
        (["build"], "Builds a tree and saves it."),
        (["inspect"], "Says how large a tree is and what it costs."),
        (["compare"], "Compares what trees cost and how they fit data."),
        (["plot"], "Draws a tree (needs matplotlib)."),
    ],
)
def test_help(capsys, command, text):
    """Begins with what the command does, ends with examples."""
    out = printed(capsys, *command, "--help")
    assert out[:2] == [text, ""] and out[2].startswith("usage: python -m")
    assert "  python -m tf_hsm tree inspect tree.npz --counts=words.txt" in out
    assert (not command) == (not any("huffman:K" in line for line in out))


def test_data(capsys):
    expected = Tree.from_data(LABELS, CONTEXTS)
    status, out, _ = run(
        capsys, "build", "data", "--data=examples.npz", "--output=tree.npz"
    )
    assert not status and Tree.load("tree.npz") == expected
    out = printed(capsys, "compare", "two_level", "data", "--data=examples.npz")
    titles, data, two_level = (line.split() for line in out[:3])
    assert titles[-2:] == ["expected", "loss"]
    assert "in the order of the expected loss" in out[3]
    for tree, line in ((Tree.two_level(300), two_level), (expected, data)):
        loss = tree.expected_loss(LABELS, CONTEXTS)
        assert line[-2:] == [f"{loss:.3f}", "nats"]
    # By default the tree of the data is compared with others.
    _, out, _ = run(capsys, "compare", "--data=examples.npz")
    assert "data" in {line.split()[0] for line in out[1:7]}
    losses = [float(line.split()[-2]) for line in out[1:7]]
    assert losses == sorted(losses) and len(set(losses)) > 3


def test_compare(capsys):
    Tree.balanced(5, [5]).save("flat.npz")
    out = printed(
        capsys,
        *("compare", "flat.npz", "huffman", "--counts=words.txt"),
        *("--batch=1000", "--width=3"),
    )
    assert "in the order of their mean depth" in out[3]
    head, flat, huffman = (re.split("  +", line) for line in out[:3])
    assert head == [
        *("tree", "rows/example", "mean depth", "depth", "touched rows"),
        *("parameters", "predicted"),
    ]
    assert flat[:6] == ["flat.npz", "5.0", "1.00", "1", "5", "0.0 MiB"]
    # The words lie at depths 1, 2, 3, 4 and 4.
    depth = (60 + 2 * 30 + 3 * 6 + 4 * 3 + 4 * 1) / 100
    assert huffman[:5] == [
        *("huffman", f"{2 * depth:.1f}", f"{depth:.2f}", "4", "8")
    ]
    assert flat[6].endswith(" ms") and len({len(line) for line in out[:3]}) == 1
    assert float(huffman[6][:-3]) < float(flat[6][:-3])
    pinned = ["compare", "huffman:pinned", "huffman", "--num_classes=9000"]
    half, whole = (line.split() for line in run(capsys, *pinned)[1][1:3])
    assert (half[0], half[2:4]) == ("huffman:pinned", whole[2:4])
    for place in (1, 4, 5):  # rows per example, touched rows, parameters
        twice = 2 * float(half[place].replace(",", ""))
        assert twice == pytest.approx(
            float(whole[place].replace(",", "")), 0.01
        )


def test_compare_puts_the_advised_tree_first(capsys):
    """For counts that is `Tree.from_counts`, whose labels take one decision.

    Binary decisions are the fastest and come last.
    """
    np.save("zipf.npy", 1e6 / np.arange(1, 20_001) ** 1.2)
    out = run(capsys, "compare", "--counts=zipf.npy")[1]
    table = [line.split() for line in out[1:6]]
    assert [line[0] for line in table] == [
        *("huffman:256", "adaptive", "two_level", "balanced:100", "huffman"),
    ]
    times = [float(line[-2]) for line in table]
    assert min(times) == times[-1]
    depths = [float(line[2]) for line in table]
    assert depths == sorted(depths)
    tree = Tree.from_counts(np.load("zipf.npy"))
    assert Tree.huffman(np.load("zipf.npy"), branching=256) == tree
    text = " ".join(out[6:])
    assert "with fewer decisions a model usually fits better" in text
    assert "With --data=FILE.npz" in text
    # One tree is not compared, so there is nothing to say.
    assert len(run(capsys, "compare", "huffman", "--num_classes=9")[1]) == 2
