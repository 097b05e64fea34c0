"""Pictures of trees: what is in them, and that they can be made at all."""

import sys

import numpy as np
import pytest

from tests.support import pictures, trees
from tf_hsm.tree import Tree
from tf_hsm.tree.arrays import row_leaves
from tf_hsm.tree.masses import row_masses
from tf_hsm.tree.sketch import sketch

PNG = b"\x89PNG\r\n\x1a\n"


def texts(figure):
    return [text.get_text() for text in figure.findobj(match_text)]


def match_text(artist):
    return hasattr(artist, "get_text") and artist.get_visible()


def sketch_of(tree, counts, max_lines):
    masses = row_masses(tree._arrays, tree._levels, counts)
    leaves = row_leaves(tree._arrays, tree._levels)
    return sketch(tree, masses, leaves, max_lines)


def nodes_below(node):
    for child in node.children:
        yield child
        yield from nodes_below(child)


@pytest.mark.parametrize("name", trees.CATALOGUE)
@pytest.mark.parametrize("max_lines", [9, 24])
def test_sketch_accounts_for_every_class(name, max_lines):
    tree = trees.CATALOGUE[name]()
    counts = np.random.default_rng(0).integers(1, 9, tree.num_classes)
    root = sketch_of(tree, counts, max_lines)
    shown = list(nodes_below(root))
    assert shown
    assert len([n for n in shown if not n.children]) <= max_lines
    for node in [root, *shown]:
        if node.row is not None and node.row >= 0:
            below = [
                c for c in range(tree.num_classes) if node.row in tree.path(c)
            ]
            assert node.num_classes == len(below)
            assert node.mass == pytest.approx(
                counts[below].sum() / counts.sum()
            )
        if not node.children:
            continue
        assert [child.depth for child in node.children] == (
            [node.depth + 1] * len(node.children)
        )
        for total in ("mass", "num_classes"):
            assert sum(getattr(c, total) for c in node.children) == (
                pytest.approx(getattr(node, total))
            )
        group = 0 if node is root else tree.row_children[node.row]
        rows = range(*tree.group_offsets[group : group + 2])
        singles = [c for c in node.children if c.row is not None]
        assert {c.row for c in singles} <= set(rows)
        assert sum(c.num_rows for c in node.children) == len(rows)
        # The heaviest come first, and no other is heavier.
        masses = [c.mass for c in singles]
        assert masses == sorted(masses, reverse=True)
        if len(singles) < len(node.children):
            assert len(singles) == (8 if node is root else 5)
            (others,) = [c for c in node.children if c.row is None]
            assert others is node.children[-1] and others.num_rows > 1
            assert others.mass <= others.num_rows * masses[-1] + 1e-12


def test_sketch_opens_the_heaviest():
    tree = Tree.from_nested([[0, 1], [2, 3], [[4, 5], [6, 7]]])
    counts = [1, 1, 5, 5, 10, 10, 30, 1]
    root = sketch_of(tree, counts, 6)  # enough for this root
    heavy, *others = root.children
    assert heavy.num_classes == 4 and [c.mass * 63 for c in heavy.children] == (
        pytest.approx([31, 20])
    )
    assert [len(c.children) for c in heavy.children] == [2, 2]
    assert [len(c.children) for c in others] == [0, 0]


def test_names_and_shares_are_shown(tmp_path):
    paths = [("animal", "cat"), ("plant",), ("animal", "dog"), ("$x_1$",)]
    figure = Tree.from_paths(paths).plot(
        [5, 2, 1, 2], path=tmp_path / "tree.png"
    )
    shown = texts(figure)
    for text in (
        *("all", "animal  60%", "cat  50%", "dog  10%", "plant  20%"),
        *("$x_1$  20%", "labels", "classes"),
        "4 classes, 5 rows in 2 groups; 4.2 rows per example, labels as "
        "counted",
    ):
        assert text in shown, text
    assert (tmp_path / "tree.png").read_bytes().startswith(PNG)
    assert [p.name for p in tmp_path.iterdir()] == ["tree.png"]


def test_trees_without_names_show_classes():
    shown = texts(Tree.balanced(1000, 100).plot())
    assert "class 4  0.1%" in shown and "… 5 more  0.5%" in shown
    assert "… 92 more  92%" in shown
    assert "10 classes  1%" in shown
    assert any("110.0 rows per example, all classes alike" in t for t in shown)


def test_ribbons_are_as_thick_as_masses():
    from matplotlib import patches

    figure = Tree.from_nested([0, [1, 2]]).plot([6, 1, 3])
    ribbons = [
        patch.get_path().vertices
        for patch in figure.subfigs[0].findobj(patches.PathPatch)
    ]
    # The curves of a ribbon: down to vertex 3, back from vertex 4.
    ends = sorted(abs(v[4][1] - v[3][1]) for v in ribbons)
    starts = sorted(abs(v[7][1] - v[0][1]) for v in ribbons)
    # Those of one node leave it side by side.
    left = {(float(v[0][0]), round(float(v[0][1]), 9)) for v in ribbons}
    right = {(float(v[7][0]), round(float(v[7][1]), 9)) for v in ribbons}
    assert len(left) == 4 and len(left & right) == 2
    expected = 3 * np.array([0.1, 0.3, 0.4, 0.6])
    np.testing.assert_allclose(ends, expected)
    np.testing.assert_allclose(starts, expected)


def test_nothing_overlaps():
    from matplotlib import patches

    for tree in (Tree.two_level(10_000), Tree.balanced(100_000, 3)):
        figure = tree.plot()
        axes = figure.subfigs[0].axes[0]
        columns = {}
        for patch in axes.findobj(patches.Rectangle):
            if patch is not axes.patch:
                x = patch.get_x()
                low, high = patch.get_y(), patch.get_y() + patch.get_height()
                columns.setdefault(x, []).append((low, high))
        for bars in columns.values():
            bars.sort()
            edges = np.ravel(bars)
            assert (np.diff(edges) > 0).all()
            assert edges[0] >= 0 and edges[-1] <= axes.get_ylim()[0]


def test_levels():
    tree = Tree.from_nested([0, [1, 2, 3], [4, [5, 6]]])
    figure = tree.plot([4, 1, 1, 1, 1, 1, 1])
    fanouts, shares = figure.subfigs[1].axes
    assert fanouts.lines[0].get_xydata().tolist() == [[1, 3], [2, 2.5], [3, 2]]
    band = fanouts.patches[0].get_data()
    assert band.values[::2].tolist() == [3, 3, 2]
    assert band.baseline[::2].tolist() == [3, 2, 2]
    labels, classes = (patch.get_data() for patch in shares.patches)
    np.testing.assert_allclose(labels.values[::2], [40, 40, 20])
    np.testing.assert_allclose(
        classes.values[::2], 100 * np.array([1, 4, 2]) / 7
    )
    assert labels.edges.tolist() == [0.65, 1.35, 1.65, 2.35, 2.65, 3.35]


@pytest.mark.parametrize(
    "name",
    [
        *("two_level_1013", "balanced_per_level", "flat", "huffman_4ary"),
        *("chain_50", "chain_10000", "single_class"),
    ],
)
def test_pictures_of_all_shapes(name, tmp_path):
    """Their axes and legends; a file that is the same when made again."""
    tree = (trees.CATALOGUE | trees.DEEP)[name]()
    for counts in (None, np.arange(1, tree.num_classes + 1)[::-1]):
        figure = tree.plot(counts, path=tmp_path / "tree.svg")
        pictures.check(figure)
        shares = figure.axes[-1]
        assert shares.get_ylabel() == "share, %"
        assert float(pictures.ticks(shares, "y")[-1]) <= 100
    svg = (tmp_path / "tree.svg").read_bytes()
    assert b"</svg>" in svg
    if name == "huffman_4ary":
        tree.plot(counts, path=str(tmp_path / "again.SVG"))
        assert (tmp_path / "again.SVG").read_bytes() == svg


def test_hard_names(tmp_path):
    names = ["\ud800", "a\nb\0", "", "$\\frac{", "x" * 10**5, "  ", "é" * 28]
    tree = Tree.balanced(7, 4).with_class_names(names)
    shown = texts(tree.plot(path=tmp_path / "tree.png"))
    for name in ("?", "a b", "class 2", "$\\frac{", "x" * 28 + "…", "é" * 28):
        assert f"{name}  14%" in shown


def test_bad_arguments(tmp_path, monkeypatch):
    tree = Tree.two_level(9)
    with pytest.raises(ValueError, match="counts has 2 entries"):
        tree.plot([1, 2])
    with pytest.raises(ValueError, match="all counts are zero"):
        tree.plot(np.zeros(9))
    for name in ("tree", "tree.doc", "tree.png.gz"):
        with pytest.raises(ValueError, match=r"suffix must be one of .*png"):
            tree.plot(path=tmp_path / name)
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        tree.plot(path=tmp_path / "none" / "tree.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="needs matplotlib: pip install"):
        tree.plot()
