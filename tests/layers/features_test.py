"""The tables of docs/features.md, made by trying every feature on every head.

    python -m tests.layers.features_test

writes the tables anew. The document gives a reason for each "no".
"""

import pathlib
import re

from tests.support import feature_answers, head_features
from tests.support.heads_by_name import NAMES

DOCUMENT = pathlib.Path().resolve() / "docs/features.md"
TABLES = {
    "Options of the constructor": head_features.OPTIONS,
    "Use": head_features.USES,
    "Answers": feature_answers.FEATURES,
}
# How a head says that it lacks a feature. Any other error is a mistake.
_REFUSALS = re.compile(
    r"Unrecognized keyword arguments|is not possible|has no embed$"
    "|tree is pinned|one loss for all labels|must have the shape of"
    "|is for one label per input|cannot be estimated"
)


def has(try_it, name):
    """Tries a feature on a head; returns whether the head has it.

    Raises:
      AssertionError: the feature has not the effect that it should have.
    """
    try:
        try_it(name)
    except (TypeError, ValueError) as error:
        if _REFUSALS.search(str(error)):
            return False
        raise
    return True


def written(features):
    """Returns a table in Markdown, and the features that heads lack."""
    lines = [f"| | {' | '.join(NAMES)} |", "|---" * (1 + len(NAMES)) + "|"]
    lacks = set()
    for feature, try_it in features.items():
        lacking = {name for name in NAMES if not has(try_it, name)}
        cells = ["no" if name in lacking else "yes" for name in NAMES]
        lines.append(f"| {feature} | {' | '.join(cells)} |")
        lacks |= {(feature, name) for name in lacking}
    return "\n".join([*lines, ""]), lacks


def section(title):
    """The pattern of a section: its heading, its table, and its reasons."""
    return re.compile(rf"(## {title}\n\n)((?:\|.*\n)+)((?:(?!## ).*\n)*)")


def explained(reasons, features):
    """The features that heads lack, by the lines of the document."""
    found = set()
    for line in reasons.split("\n* ")[1:]:
        what = line.replace("\n  ", " ").partition(": ")[0]
        heads = [name for name in NAMES if name in what]
        found |= {(f, name) for f in features if f in what for name in heads}
    return found


def test_document():
    """Features work, or heads refuse them; and the document says which."""
    for title, features in TABLES.items():
        _, table, reasons = section(title).search(DOCUMENT.read_text()).groups()
        wanted, lacks = written(features)
        assert table == wanted
        assert explained(reasons, features) == lacks


def main():
    """Writes the tables into the document."""
    text = DOCUMENT.read_text()
    for title, features in TABLES.items():
        table, _ = written(features)
        text = section(title).sub(rf"\g<1>{table}\g<3>", text)
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    main()
