"""The picture of `Tree.plot`."""

import os

import numpy as np

from tf_hsm.tree.arrays import row_leaves
from tf_hsm.tree.masses import group_masses, row_masses
from tf_hsm.tree.names import name_of_row
from tf_hsm.tree.sketch import sketch

_COLOURS = [
    *("#0b5fa5", "#d1661c", "#3c8d40", "#8e5aa8"),
    *("#b8901f", "#2a8f8f", "#c2437a", "#6b7f2a"),
]
_GREY = "#999999"
_STYLE = {
    "font.size": 9,
    # Letters as text: a tenth of the size.
    "svg.fonttype": "none",
    "svg.hashsalt": "tf_hsm.Tree",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_WIDTH = 9  # inches, like those that follow
_LINE_HEIGHT = 0.23
_PANEL_HEIGHT = 2.2
_MIN_LINES, _MAX_LINES = 6, 24
_ROOT_LINES = 3.0  # the thickness of all labels
_MIN_THICKNESS = 0.03
_GAP = 0.3
_BAR = 0.02  # of a column
_MAX_NAME = 28  # characters


def plot_tree(tree, counts, path):
    """See `Tree.plot`."""
    try:
        import matplotlib
        from matplotlib import figure as figures
    except ImportError as error:
        raise ImportError(
            "Tree.plot needs matplotlib: pip install matplotlib, or tf_hsm "
            "with its extra, tf_hsm[plot]"
        ) from error

    masses = row_masses(tree._arrays, tree._levels, counts)
    leaves = row_leaves(tree._arrays, tree._levels)
    root = sketch(tree, masses, leaves, _MAX_LINES)
    num_lines = max(_place(root, 0), _MIN_LINES)
    with matplotlib.rc_context(_STYLE):
        height = num_lines * _LINE_HEIGHT
        figure = figures.Figure(
            figsize=(_WIDTH, height + _PANEL_HEIGHT + 0.5),
            layout="constrained",
            facecolor="white",
        )
        _check_suffix(figure, path)
        top, bottom = figure.subfigures(
            2, 1, height_ratios=[height + 0.5, _PANEL_HEIGHT]
        )
        figure.suptitle(_title(tree, masses, counts), fontsize=10)
        _draw_tree(top.subplots(), tree, root, num_lines)
        fanouts, shares = bottom.subplots(1, 2)
        _draw_fanouts(fanouts, tree)
        _draw_shares(shares, tree, masses, counts)
        if path is not None:
            # No date: one tree makes one file.
            is_svg = os.fspath(path).lower().endswith(".svg")
            metadata = {"Creator": None, "Date": None} if is_svg else None
            figure.savefig(path, dpi=150, metadata=metadata)
    return figure


def _check_suffix(figure, path):
    """Raises a ValueError where `path` names no format of matplotlib."""
    if path is None:
        return
    suffix = os.path.splitext(os.fspath(path))[1][1:].lower()
    known = sorted(figure.canvas.get_supported_filetypes())
    if suffix not in known:
        raise ValueError(
            f"path is {os.fspath(path)!r}; its suffix must be one of "
            f"{', '.join(known)}"
        )


def _title(tree, masses, counts):
    passed = group_masses(tree._arrays, masses)
    rows = np.diff(tree.group_offsets) @ passed
    labels = "all classes alike" if counts is None else "labels as counted"
    return (
        f"{_classes(tree.num_classes)}, {tree.num_rows:,} rows in "
        f"{tree.num_groups:,} groups; {rows:,.1f} rows per example, {labels}"
    )


def _place(node, line):
    """Sets `y`, in lines from above, of a node and all below; returns the next.

    A node is beside the middle of its children.
    """
    if not node.children:
        height = max(_thickness(node.mass) + _GAP, 1)
        node.y = line + height / 2
        return line + height
    for child in node.children:
        line = _place(child, line)
    node.y = (node.children[0].y + node.children[-1].y) / 2
    return line


def _draw_tree(axes, tree, root, num_lines):
    """Draws ribbons as thick as the share of the labels that take them."""
    depth = _draw_below(axes, tree, root, _COLOURS)
    _draw_node(axes, tree, root, _GREY)
    # Room for the names of the last column.
    axes.set(xlim=(-0.12, depth + 0.75), ylim=(num_lines, 0))
    axes.set_axis_off()


def _draw_below(axes, tree, node, colours):
    """Draws all below a node; returns the depth of the deepest."""
    depth = node.depth
    begin = node.y - _thickness(node.mass) / 2
    for number, child in enumerate(node.children):
        colour = colours[number % len(colours)]
        if child.row is None:
            colour = _GREY
        _draw_ribbon(axes, node, begin, child, colour)
        begin += _ROOT_LINES * child.mass
        depth = max(depth, _draw_below(axes, tree, child, [colour]))
        _draw_node(axes, tree, child, colour)
    return depth


def _draw_ribbon(axes, node, begin, child, colour):
    """Draws the ribbon that leaves `node` at the height `begin`."""
    from matplotlib import patches
    from matplotlib import path as paths

    thickness = _thickness(child.mass)
    left, right = node.depth + _BAR, child.depth
    middle = (left + right) / 2
    edges = [
        [(left, y), (middle, y), (middle, end), (right, end)]
        for y, end in (
            (begin, child.y - thickness / 2),
            (begin + thickness, child.y + thickness / 2),
        )
    ]
    curve = [paths.Path.CURVE4] * 3
    codes = [paths.Path.MOVETO, *curve, paths.Path.LINETO, *curve]
    outline = paths.Path([*edges[0], *edges[1][::-1]], codes)
    axes.add_patch(
        patches.PathPatch(outline, facecolor=colour, alpha=0.3, linewidth=0)
    )


def _draw_node(axes, tree, node, colour):
    from matplotlib import patches

    thickness = max(_thickness(node.mass), 0.3)
    axes.add_patch(
        patches.Rectangle(
            (node.depth, node.y - thickness / 2), _BAR, thickness, color=colour
        )
    )
    if node.children:
        axes.text(
            node.depth + _BAR / 2,
            node.y - thickness / 2 - 0.05,
            _label(tree, node),
            ha="left" if node.row == -1 else "center",
            va="bottom",
            parse_math=False,
            # Ribbons may pass behind.
            bbox={"color": "white", "alpha": 0.7, "pad": 0, "linewidth": 0},
        )
    else:
        axes.text(
            node.depth + 2 * _BAR,
            node.y,
            _label(tree, node),
            color="#666666" if node.row is None else "black",
            va="center",
            parse_math=False,
        )


def _thickness(mass):
    return max(_ROOT_LINES * mass, _MIN_THICKNESS)


def _label(tree, node):
    if node.row == -1:
        return "all"
    share = _percent(node.mass)
    if node.row is None:
        return f"… {node.num_rows:,} more  {share}"
    name = ""
    if tree._names is not None:
        name = _shown(name_of_row(tree._names, node.row))
    if not name and tree.row_classes[node.row] >= 0:
        name = f"class {tree.row_classes[node.row]}"
    elif tree.row_classes[node.row] < 0 and not node.children:
        number = _classes(node.num_classes)
        name = f"{name} ({number})" if name else number
    return f"{name}  {share}" if name else share


def _classes(number):
    return f"{number:,} class" + "es" * (number != 1)


def _shown(name):
    """Returns a name as one short line of characters that can be drawn."""
    name = name[: _MAX_NAME + 1].encode("utf-8", "replace").decode()
    name = "".join(c if c.isprintable() else " " for c in name).strip()
    return name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "…"


def _percent(share):
    if 0 < share < 1e-5:
        return "<0.001%"
    return f"{100 * share:.2g}%" if share < 0.0995 else f"{100 * share:.0f}%"


def _draw_fanouts(axes, tree):
    """Draws the smallest, mean and largest fanout of each level."""
    fanouts = np.diff(tree.group_offsets)
    starts = tree._levels[:-1]
    least = np.minimum.reduceat(fanouts, starts)
    most = np.maximum.reduceat(fanouts, starts)
    means = np.add.reduceat(fanouts, starts) / np.diff(tree._levels)
    least_of_bars, edges = _bars(least, 1)
    axes.stairs(
        _bars(most, 1)[0],
        edges,
        baseline=least_of_bars,
        fill=True,
        color=_COLOURS[0],
        alpha=0.25,
    )
    axes.plot(
        np.arange(1, tree.depth + 1),
        means,
        color=_COLOURS[0],
        marker="o" if tree.depth <= 40 else None,
        markersize=4,
        linewidth=1,
    )
    if most.max() > 20:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:,g}")
    else:
        axes.set_ylim(0, most.max() + 1)
    axes.set_title("fanout: smallest, mean, largest", fontsize=9)
    _finish(axes, tree.depth, "rows of a group")


def _draw_shares(axes, tree, masses, counts):
    """Draws the share of the classes, and of labels, that end at each level."""
    depths = tree.group_depths[tree.row_groups[tree.class_rows]]
    classes = 100 * np.bincount(depths, minlength=tree.depth) / depths.size
    if counts is None:
        axes.stairs(*_bars(classes, 0), fill=True, color=_GREY)
        axes.set_title("classes that end at a level", fontsize=9)
    else:
        labels = np.bincount(depths, masses[tree.class_rows], tree.depth)
        axes.stairs(
            *_bars(100 * labels, 0),
            fill=True,
            color=_COLOURS[0],
            alpha=0.5,
            label="labels",
        )
        axes.stairs(*_bars(classes, 0), color="#333333", label="classes")
        # Above the bars, where nothing is hidden.
        axes.set_ylim(0, 1.3 * axes.get_ylim()[1])
        axes.set_yticks([y for y in axes.get_yticks() if y <= 100])
        axes.legend(frameon=False, loc="upper center", ncols=2)
        axes.set_title("labels and classes that end at a level", fontsize=9)
    axes.set_ylim(bottom=0)
    _finish(axes, tree.depth, "share, %")


def _bars(heights, between):
    """Returns values and edges of stairs that are a bar at each level."""
    values = np.full(2 * heights.size, between, np.float64)
    values[::2] = heights
    edges = np.arange(1, heights.size + 1)[:, np.newaxis] + [-0.35, 0.35]
    return values[:-1], edges.ravel()


def _finish(axes, depth, ylabel):
    axes.set_xlabel("level")
    axes.set_ylabel(ylabel)
    axes.set_xlim(0.4, depth + 0.6)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(axis="y", color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)
