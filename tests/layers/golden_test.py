"""Files of an earlier version load, give the same answers and train on.

With TF_HSM_SAME_BITS=1 in the environment all numbers must be equal, as they
are on the machine that wrote the files.
"""

import os

import numpy as np
import pytest

from tests.golden.heads import answers, files
from tests.golden.heads.cases import CASES

FILES = [
    *((name, kind) for name in CASES for kind in files.LOADERS),
    *((name, "export") for name in files.EXPORTED),
]
# An export has these answers, and no others.
EXPORTED = ("top_k/", "threshold/", "log_prob", "sample")
OTHERS = ("answers/log_probs", "answers/sample_of_best")
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


def results(name, kind, data):
    """The arrays that a file of a case gives for data."""
    if kind == "export":
        return answers.of_export(name, files.export(name), data)
    model = files.LOADERS[kind](name)
    return {
        **answers.of_model(name, model, data),
        **answers.after_training(name, model, data),
    }


def expected(arrays, kind):
    """The recorded arrays that a file of a kind gives."""
    prefixes = ("answers/", "after/")
    if kind == "export":
        prefixes = tuple(f"answers/{name}" for name in EXPORTED)
        arrays = {k: v for k, v in arrays.items() if k not in OTHERS}
    return {k: v for k, v in arrays.items() if k.startswith(prefixes)}


@pytest.mark.parametrize("name, kind", FILES)
def test_golden_files(name, kind):
    """All classes are equal; numbers differ by rounding."""
    arrays = files.recorded(name)
    wanted = expected(arrays, kind)
    data = {
        key.removeprefix("data/"): value
        for key, value in arrays.items()
        if key.startswith("data/")
    }
    found = results(name, kind, data)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert found[key].dtype == value.dtype, key
        assert found[key].shape == value.shape, key
        tolerance = TOLERANCE
        if value.dtype.kind != "f" or "TF_HSM_SAME_BITS" in os.environ:
            tolerance = {"rtol": 0}
        elif "bfloat16" in name and key.startswith(ROUNDED):
            tolerance = BFLOAT16_TOLERANCE
        np.testing.assert_allclose(found[key], value, err_msg=key, **tolerance)
        if (name, key) == BFLOAT16_KERNEL:
            assert np.mean(np.isclose(found[key], value, **TOLERANCE)) > 0.8
