"""`python -m tf_hsm tree compare`: which tree costs and fits how."""

import numpy as np
import pytest

from tests.support import programs
from tf_hsm.cli import program, tree_command
from tf_hsm.tree import Tree
from tf_hsm.tree.builders import progress

COUNTS = [60, 30, 6, 3, 1]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # However slow the machine is, no line of progress.
    for module in (tree_command, progress):
        monkeypatch.setattr(module, "_SECONDS", 10**6)
    np.save("counts.npy", COUNTS)
    (tmp_path / "words.txt").write_text(
        "the 60\nof 30\nNew York 6\nand 3\ncat 1\n"
    )


def run(capsys, *arguments):
    return programs.outcome(capsys, program.main, "tree", *arguments)


def test_compare(capsys):
    Tree.balanced(5, [5]).save("flat.npz")
    status, out, err = run(
        capsys,
        *("compare", "flat.npz", "huffman", "--counts=words.txt"),
        *("--batch=1000", "--width=3"),
    )
    assert (status, err) == (0, [])
    assert "in the order of their mean depth" in out[3]
    out = out[:3]
    head, flat, huffman = (line.split("  ") for line in out)
    head, flat, huffman = (
        [cell.strip() for cell in cells if cell.strip()]
        for cells in (head, flat, huffman)
    )
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
    assert flat[6].endswith(" ms") and len({len(line) for line in out}) == 1
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
