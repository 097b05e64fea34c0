"""An AdaptiveSoftmax with an optimizer of its own, saved and loaded."""

import json

import keras
import numpy as np
import pytest

from tests.support.in_place_models import (
    make_adaptive,
    make_model,
    own_variables,
)
from tests.support.models import WIDTH, head_of
from tests.support.training import assert_same
from tf_hsm import optimizers
from tf_hsm.layers import AdaptiveSoftmax


def test_files_of_heads_without_an_optimizer(tmp_path):
    """Each kind reads the weights of the other, although Keras sorts them."""
    plain, own = (
        make_model("compile", own=own, make=make_adaptive) for own in (0, 1)
    )
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=[30, WIDTH]).astype("f4")
    path = tmp_path / "model.weights.h5"
    for source, target in ((plain, own), (own, plain)):
        for variable in head_of(source).weights:
            variable.assign(rng.normal(size=variable.shape))
        # Without the optimizers, which have other variables.
        keras.Model(source.inputs, source.outputs).save_weights(path)
        keras.Model(target.inputs, target.outputs).load_weights(path)
        heads = [head_of(target), head_of(source)]
        assert_same(*map(own_variables, heads))
        assert_same(*(head(inputs, np.arange(30)) for head in heads))


def test_weights_of_another_shape_are_refused():
    head = make_adaptive()
    head.build([None, 6])
    store = own_variables(head)
    with pytest.raises(ValueError, match=r"has 7 variables, but .* 8: adapt"):
        head.load_own_variables({k: v for k, v in store.items() if k != "0"})
    store["1"] = store["1"][1:]
    with pytest.raises(ValueError, match=r"head_bias is of .*shape \(7,\)"):
        head.load_own_variables(store)


@pytest.mark.parametrize("cutoffs", ["auto", [5, 14]])
def test_config_of_a_head(cutoffs):
    """It survives JSON; one without the arguments is that of a plain head."""
    head = AdaptiveSoftmax(
        30,
        cutoffs=cutoffs,
        div_value=1.5,
        optimizer=optimizers.LazyAdam(0.02, sparse_beta_1=0.7, epsilon=1e-3),
        stochastic_rounding=True,
        seed=np.int64(9),
        dtype="bfloat16",
    )
    config = json.loads(json.dumps(head.get_config()))
    copy = AdaptiveSoftmax.from_config(config)
    assert copy.get_config() == config
    assert copy.optimizer.get_config() == head.optimizer.get_config()
    assert (copy.seed, copy.stochastic_rounding) == (9, True)
    for name in ("optimizer", "stochastic_rounding", "seed"):
        del config[name]
    assert AdaptiveSoftmax.from_config(config).optimizer is None
