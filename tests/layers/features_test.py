"""The tables of docs/features.md, made by trying every feature on every head.

    python -m tests.layers.features_test

writes the tables anew.
"""

import functools
import itertools
import pathlib
import re
import textwrap

import pytest

from tests.support import feature_answers, feature_options, feature_uses
from tests.support.heads_by_name import NAMES

DOCUMENT = pathlib.Path().resolve() / "docs/features.md"
# The program writes what follows.
MARK = "<!-- Written by tests/layers/features_test.py. -->\n\n"
TABLES = {
    "Options of the constructor": feature_options.FEATURES,
    "Use": feature_uses.FEATURES,
    "Answers": feature_answers.FEATURES,
}
CELLS = [
    pytest.param(feature, name, id=f"{feature}-{name}")
    for features in TABLES.values()
    for feature, name in itertools.product(features, NAMES)
]
FUNCTIONS = {k: v for features in TABLES.values() for k, v in features.items()}
# How a head says that it lacks a feature. Any other error is a mistake.
_REFUSALS = re.compile(
    r"Unrecognized keyword arguments|is not possible|has no embed$"
    "|tree is pinned|one loss for all labels|must have the shape of"
    "|is for one label per input|cannot be estimated"
)

_SETS = "a label tree has one loss for the whole label set of an input"
_NOT_BUILT = "not built"
_NO_SUM = (
    "labels do not exclude each other, so their probabilities do not sum to 1"
)
_NO_NODES = "its classes lie in several trees, which share no numbering of rows"
_ONE_GROUP = "its tree is one group, in which every row is a class"
_SAMPLE = (
    "smoothing needs the log-probabilities of all classes, and training scores "
    "a sample of them"
)
_SMALL = (
    "not built; the gradient of the sampled rows is small, and the optimizers "
    "of `tf_hsm.optimizers` touch these rows alone"
)
_PATHS = "a class has a path of rows, and no vector of its own"
# The reason for each "no".
REASONS = {
    "weights of several labels": {"LabelTree": _SETS},
    "`node_labels`": {
        "AdaptiveSoftmax": _NO_NODES,
        "LabelTree": _NOT_BUILT,
        "SampledSoftmax": _ONE_GROUP,
    },
    "`label_smoothing`": {"LabelTree": _NOT_BUILT, "SampledSoftmax": _SAMPLE},
    "`smoothing_prior`": {"LabelTree": _NOT_BUILT, "SampledSoftmax": _SAMPLE},
    "`class_weights`": {"LabelTree": _SETS},
    "`focal_gamma`": {"LabelTree": _SETS},
    "`optimizer`, a step in place": {"SampledSoftmax": _SMALL},
    "`stochastic_rounding` in place": {
        "SampledSoftmax": "it has no step in place"
    },
    "pinned trees": {
        "LabelTree": "a pinned tree has one vector for the softmax of two "
        "rows, and a label tree has a sigmoid for each row",
        "SampledSoftmax": _ONE_GROUP,
    },
    "`devices`": {
        "EmbeddingSoftmax": "one op updates table and tree together; put an "
        "`Embedding` before a `HierarchicalSoftmax` instead",
        "LabelTree": _NOT_BUILT,
        "SampledSoftmax": _NOT_BUILT,
    },
    "`tied_to` an `Embedding`": {
        "AdaptiveSoftmax": "rows of tails are narrower than the vectors; the "
        "head embeds by itself, `head(tokens, embed=True)`",
        "EmbeddingSoftmax": "it has a table of embeddings of its own",
        "LabelTree": _NOT_BUILT,
        "SampledSoftmax": _NOT_BUILT,
    },
    "inputs `[batch, time, width]`": {
        "EmbeddingSoftmax": "the second dimension of ids is a bag"
    },
    "`TopKAccuracy`": {
        "LabelTree": "an input has several labels; use `PrecisionAtK`"
    },
    "`prune`": {
        "AdaptiveSoftmax": "its classes lie in several trees; train a layer "
        "for fewer classes instead",
    },
    "`regroup`": {
        "AdaptiveSoftmax": "a class that changes its tail changes its width; "
        "see [regrouping.md](regrouping.md)",
        "LabelTree": "the probabilities of labels do not determine the "
        "probability of a set; see [regrouping.md](regrouping.md)",
        "SampledSoftmax": _ONE_GROUP,
    },
    "`tf_hsm.estimate`": {"EmbeddingSoftmax": _NOT_BUILT},
    "`embed`": {
        "HierarchicalSoftmax": _PATHS,
        "LabelTree": _PATHS,
        "SampledSoftmax": "not built; `keras.ops.take(head.kernel, classes, "
        "0)` returns the vectors",
    },
    "`log_probs(nodes=True)`": {"AdaptiveSoftmax": _NO_NODES},
    "`log_prob(nodes=True)`": {"AdaptiveSoftmax": _NO_NODES},
    "`renormalize`": {"LabelTree": _NO_SUM},
    "`sample`": {"LabelTree": _NO_SUM},
    "`sample(allowed=)`": {"LabelTree": _NO_SUM},
}


@functools.cache
def has(feature, name):
    """Tries a feature on a head; returns whether the head has it.

    Raises:
      AssertionError: the feature has not the effect that it should have.
    """
    try:
        FUNCTIONS[feature](name)
    except (TypeError, ValueError) as error:
        if _REFUSALS.search(str(error)):
            return False
        raise
    return True


def written():
    """Returns the tables and the reasons as Markdown."""
    lines = []
    for title, features in TABLES.items():
        lines += ["", f"## {title}", "", f"| | {' | '.join(NAMES)} |"]
        lines.append("|---" * (1 + len(NAMES)) + "|")
        reasons = []
        for feature in features:
            cells = ["yes" if has(feature, n) else "no" for n in NAMES]
            lines.append(f"| {feature} | {' | '.join(cells)} |")
            reasons += [
                (feature, name, REASONS[feature][name])
                for name, cell in zip(NAMES, cells, strict=True)
                if cell == "no"
            ]
        lines += ["", 'Where a table says "no":', ""]
        lines += map(_line, _grouped(reasons))
    return "\n".join([*lines[1:], ""])


def _grouped(reasons):
    """Joins features and heads that have the same reason."""
    by_reason = {}
    for feature, name, reason in reasons:
        by_reason.setdefault((reason, name), []).append(feature)
    by_features = {}
    for (reason, name), features in by_reason.items():
        key = reason, tuple(features)
        by_features.setdefault(key, []).append(name)
    return by_features.items()


def _line(group):
    (reason, features), names = group
    return textwrap.fill(
        f"* {', '.join(names)}, {', '.join(features)}: {reason}.",
        88,
        subsequent_indent="  ",
        break_on_hyphens=False,
        break_long_words=False,
    )


@pytest.mark.parametrize("feature, name", CELLS)
def test_feature(feature, name):
    """It works, or the head refuses it; and the document says which."""
    row = next(
        line
        for line in DOCUMENT.read_text().splitlines()
        if line.startswith(f"| {feature} |")
    )
    cell = row.split(" | ")[1 + NAMES.index(name)].strip(" |")
    assert cell == ("yes" if has(feature, name) else "no")


def test_document():
    """All tables and reasons are those that the program writes."""
    assert DOCUMENT.read_text().partition(MARK)[2] == written()


def main():
    """Writes the tables into the document."""
    text = DOCUMENT.read_text().partition(MARK)[0]
    DOCUMENT.write_text(text + MARK + written())


if __name__ == "__main__":
    main()
