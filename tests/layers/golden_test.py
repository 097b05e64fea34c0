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
# A sum that differs may round to the next bfloat16, in a weight or in an input
# of the head.
BFLOAT16_TOLERANCE = {"rtol": 0.02, "atol": 0.02}
# The arrays that depend on these weights and inputs.
ROUNDED = ("after/", "answers/loss")
# The head's kernel. Most of its weights are equal all the same, unless their
# stochastic rounding has other random numbers: then fewer than half are.
BFLOAT16_KERNEL = ("hierarchical_bfloat16", "after/weights/2")


@pytest.mark.parametrize("name, kind", FILES)
def test_golden_files(name, kind):
    """All classes are equal; numbers differ by rounding."""
    arrays = files.recorded(name)
    wanted = expected(arrays, kind)
    found = results(name, kind, data_of(arrays))
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key].dtype == value.dtype, key
        assert found[key].shape == value.shape, key
        tolerance = TOLERANCE
        if value.dtype.kind != "f":
            tolerance = {"rtol": 0}
        elif "bfloat16" in name and key.startswith(ROUNDED):
            tolerance = BFLOAT16_TOLERANCE
        np.testing.assert_allclose(found[key], value, err_msg=key, **tolerance)
        if (name, key) == BFLOAT16_KERNEL:
            assert np.mean(np.isclose(found[key], value, **TOLERANCE)) > 0.8
