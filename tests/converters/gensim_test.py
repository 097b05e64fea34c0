"""Converted models against gensim, which trained them.

The golden files were made with that library by
tests/golden/converters/make.py. Where it is installed, models are also trained
anew.
"""

import types

import numpy as np
import pytest

from tests.support import converters_reference as reference
from tests.support.texts import sentences
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


@pytest.mark.parametrize("name", ["Word2Vec", "FastText", "Doc2Vec"])
def test_models_that_gensim_trains_now(name):
    models = pytest.importorskip("gensim.models")
    options = {"vector_size": 5, "hs": 1, "negative": 0, "min_count": 1}
    texts = sentences(2)
    if name == "Doc2Vec":
        texts = [
            models.doc2vec.TaggedDocument(text, [number])
            for number, text in enumerate(texts)
        ]
    elif name == "FastText":
        options["bucket"] = 100
    model = getattr(models, name)(texts, workers=1, epochs=2, **options)
    converted = converters.from_gensim(model)
    np.testing.assert_allclose(
        reference.log_probs(converted, converted.inputs[:5]),
        reference.walk(
            reference.gensim_paths(model), model.syn1, model.wv.vectors[:5]
        ),
        rtol=1e-5,
        atol=1e-5,
    )
