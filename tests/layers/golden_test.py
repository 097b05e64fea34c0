"""Files of an earlier version load, give the same answers and train on.

tests/golden/heads/make.py --check asks for the same bits, on the machine that
wrote the files.
"""

import numpy as np
import pytest

from tests.golden.heads import files
from tests.golden.heads.cases import CASES
from tests.golden.heads.make import data_of, expected, kinds_of, results

FILES = [(name, kind) for name in CASES for kind in kinds_of(name)]
# Instruction sets round sums differently, in float32.
TOLERANCE = {"rtol": 1e-5, "atol": 2e-6}
# Then bfloat16 weights may round to a neighbor.
BFLOAT16_TOLERANCE = {"rtol": 0.02, "atol": 0.02}


@pytest.mark.parametrize("name, kind", FILES)
def test_golden_files(name, kind):
    """All classes are equal; numbers differ by rounding."""
    arrays = files.recorded(name)
    wanted = expected(arrays, kind)
    found = results(name, kind, data_of(arrays))
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key].dtype == value.dtype, key
        tolerance = TOLERANCE
        if value.dtype.kind != "f":
            tolerance = {"rtol": 0}
        elif "bfloat16" in name and key.startswith("after/"):
            tolerance = BFLOAT16_TOLERANCE
        np.testing.assert_allclose(found[key], value, err_msg=key, **tolerance)
