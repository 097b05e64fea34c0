"""Every op of the library, on tensors and on variables.

Small enough for a library with a sanitizer: bazel test --config=asan runs it.
"""

import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import random_calls
from tf_hsm.runtime.library import constants, library_version


@pytest.mark.parametrize("op, on_variables", random_calls.OPS)
def test_options(op, on_variables):
    """Pinned trees, smoothing, masks, bags, ... on small random problems."""
    # With tiles of examples and of columns, and a part of each.
    large = {"tree": "wide_2100", "batch": (70,), "width": 35}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sizes = large if seed >= 16 else {}
        call = random_calls.valid_call(op, on_variables, rng, **sizes)
        losses = getattr(call.run(), "loss", tf.zeros([]))
        assert np.isfinite(losses).all()


def test_ops_without_arguments():
    """`tests/fuzz:ops_test` asserts that there are no ops but these."""
    assert tf_hsm.cpu_isa() and library_version()
    assert all(value > 0 for value in constants())
