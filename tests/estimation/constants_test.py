"""Constants that Python repeats from C++ have the values of the headers."""

import pathlib
import re

import pytest

from benchmarks.top_k import implementations
from tf_hsm.estimation.heads import tree_head

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
        ("api/loss.h", "kMaxKeptBytes", tree_head.MAX_KEPT_BYTES),
        ("api/loss.h", "kNarrowWidth", tree_head.NARROW_WIDTH),
        ("api/loss.h", "kMaxNarrowBytes", tree_head.MAX_NARROW_BYTES),
        ("api/loss.h", "kChunkBytes", tree_head.CHUNK_BYTES),
        ("base/types.h", "kPadding", tree_head.PADDING),
        ("api/example_search.h", "kMaxOpen", implementations.MAX_OPEN),
    ],
)
def test_python_has_the_constants_of_cpp(path, name, value):
    assert value == in_header(f"cc/core/{path}", name)


def test_a_constant_is_read_from_a_header(tmp_path):
    header = tmp_path / "some.h"
    header.write_text(
        "constexpr int64_t kOne = 7;\n"
        "constexpr int64_t kTwo = int64_t{3} << 20;  // bytes\n"
    )
    assert in_header(header, "kOne") == 7
    assert in_header(header, "kTwo") == 3 << 20
    with pytest.raises(ValueError):
        in_header(header, "kThree")
