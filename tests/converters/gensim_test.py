"""Converted models against gensim, which trained them.

The golden files were made with that library by
tests/golden/converters/make.py.
"""

import types

import numpy as np
import pytest

from tests.support import converters_reference as reference
from tf_hsm import converters


@pytest.mark.parametrize("pinned", [True, False])
def test_a_model_of_gensim(pinned):
    reference.check_gensim(*reference.golden_gensim(), pinned=pinned)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_one_word_of_gensim(dtype):
    wv = reference.Words(["a"], np.ones([1, 3], dtype), [[]], [[]])
    model = converters.from_gensim(
        types.SimpleNamespace(hs=1, syn1=np.ones([1, 3], dtype), wv=wv)
    )
    assert model.weights.dtype == model.inputs.dtype == dtype
    np.testing.assert_array_equal(
        reference.log_probs(model, model.inputs), [[0.0]]
    )
