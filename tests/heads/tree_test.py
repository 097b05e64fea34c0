"""`TreeHead`: the functions of one tree as methods, without Keras."""

import inspect
from unittest import mock

import numpy as np
import pytest

import tf_hsm
from tests.support import oracle
from tests.support.masks import TREE
from tf_hsm.heads import tree_head

# Methods, and the functions that they stand for.
FUNCTIONS = {
    "loss": tf_hsm.hierarchical_softmax_loss,
    "train_step": tf_hsm.hierarchical_softmax_train_step,
    "log_probs": tf_hsm.hierarchical_softmax_log_probs,
    "log_prob": tf_hsm.hierarchical_softmax_log_prob,
    "top_k": tf_hsm.hierarchical_softmax_top_k,
    "sample": tf_hsm.hierarchical_softmax_sample,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_methods(name):
    """A method passes on to its function what it takes, and what the head has.

    The defaults are the same.
    """
    held = {
        "weights": object(),
        "biases": object(),
        "tree": TREE,
        "logit_soft_cap": 2.0,
    }
    head = tf_hsm.TreeHead(**held)
    method = getattr(head, name)
    own = inspect.signature(method).parameters
    function = inspect.signature(FUNCTIONS[name])
    assert own.keys() | held.keys() == function.parameters.keys()
    for key, parameter in own.items():
        wanted = function.parameters[key]
        assert parameter.default == wanted.default
        assert parameter.kind == wanted.kind
    given = {key: object() for key in own}
    with mock.patch.object(tree_head, f"hierarchical_softmax_{name}") as called:
        assert method(**given) is called.return_value
    args, kwargs = called.call_args
    assert function.bind(*args, **kwargs).arguments == {**given, **held}


def test_a_head_of_arrays():
    """Weights may be arrays, and there may be no biases."""
    found = oracle.random_problem(TREE, 9, 5, np.float64).replace(biases=None)
    head = tf_hsm.TreeHead(found.weights, None, TREE)
    wanted, bound = oracle.hierarchical_softmax(TREE, found)
    losses = head.loss(found.labels, found.inputs).numpy()
    assert (abs(losses - wanted.loss) <= bound.loss).all()
    assert len(head.variables()) == 1 and head.on_one_device() is head
