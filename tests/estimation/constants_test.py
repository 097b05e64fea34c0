"""Constants that Python repeats from C++ have the values of the headers."""

import pathlib
import re

import pytest

from benchmarks.top_k import implementations
from tf_hsm.estimation.heads import tree_parts

_DEFINITION = r"constexpr int64_t {} = (?:int64_t\{{)?(\d+)\}}?(?: << (\d+))?;"


def in_header(path, name):
    """Returns the value of the only constant of a name in a C++ header."""
    source = pathlib.Path(path).read_text()
    pattern = _DEFINITION.format(name)
    ((value, shift),) = re.findall(pattern, source)
    return int(value) << int(shift or 0)


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("api/loss.h", "kMaxKeptBytes", tree_parts.MAX_KEPT_BYTES),
        ("api/loss.h", "kNarrowWidth", tree_parts.NARROW_WIDTH),
        ("api/loss.h", "kMaxNarrowBytes", tree_parts.MAX_NARROW_BYTES),
        ("api/loss.h", "kChunkBytes", tree_parts.CHUNK_BYTES),
        ("base/types.h", "kPadding", tree_parts.PADDING),
        ("api/example_search.h", "kMaxOpen", implementations.MAX_OPEN),
    ],
)
def test_python_has_the_constants_of_cpp(path, name, value):
    assert value == in_header(f"cc/core/{path}", name)
