"""Heads in training: types, graphs, compilers."""

import keras
import numpy as np
import pytest

from tests.support import models
from tests.support.in_place_models import (
    arguments,
    fit,
    make_adaptive,
    make_model,
)
from tests.support.models import make_head, sampled_head
from tf_hsm import optimizers
from tf_hsm.metrics import TopKAccuracy


@pytest.mark.parametrize(
    "make, form, policy, variable, eager",
    [
        (make_head, "compile", "mixed_bfloat16", "float32", False),
        (make_head, "endpoint", "mixed_float16", "float32", False),
        (make_head, "endpoint", "bfloat16", "bfloat16", True),
        (make_head, "compile", "float64", "float64", True),
        (make_adaptive, "compile", "mixed_float16", "float32", False),
        (sampled_head, "endpoint", "mixed_float16", "float32", False),
        (sampled_head, "compile", "bfloat16", "bfloat16", True),
    ],
)
def test_policies(make, form, policy, variable, eager):
    """The rows have the variables' type; losses are float32 at least."""
    data = arguments(form, *models.make_data())
    options = {"compiling": {"run_eagerly": eager}, "dtype": policy}
    model = make_model(form, own=False, make=make, **options)
    loss = "float64" if policy == "float64" else "float32"
    if form == "endpoint":
        assert model.output.dtype == loss
        assert model.predict(data["x"], verbose=0).dtype == loss
    head = models.head_of(model)
    assert {v.dtype for v in head.trainable_weights} == {variable}
    # A sampled softmax has the losses of all classes here.
    before = np.ravel(model.evaluate(**data, verbose=0))[0]
    fit(model, data)
    assert np.ravel(model.evaluate(**data, verbose=0))[0] < before
    inputs = np.ones([2, models.WIDTH])
    assert head(inputs).dtype == head.compute_dtype
    assert head(inputs, np.array([1, 2])).dtype == loss


# TopKAccuracy asks for the labels' ranks, or for the labels and then for the
# best classes.
ASKED = {
    "ResourceTfHsmClassLogProbs",
    "ResourceTfHsmLabelRanks",
    "ResourceTfHsmLogProbs",
    "ResourceTfHsmTopK",
}


@pytest.mark.parametrize(
    "make, policy",
    [
        (make_head, "float32"),
        (make_head, "mixed_bfloat16"),
        (make_adaptive, "float32"),
    ],
)
def test_kernels_are_neither_cast_nor_copied(make, policy):
    """Nothing but the loss, its gradient and the update touch one."""
    model = models.compile_form(
        make=make,
        dtype=policy,
        compiling=lambda head: {"metrics": [TopKAccuracy(head, 3)]},
    )
    graph = models.train_graph(model, *models.make_data())
    for variable in models.head_of(model).row_variables():
        if variable.shape.rank == 1:
            continue
        handle = variable.value.handle
        handle = next(i for outer, i in graph.captures if outer is handle)
        uses = [op.type for op in handle.consumers()]
        assert sorted(kind for kind in uses if kind not in ASKED) == [
            "ResourceScatterSub",
            "ResourceTfHsmLoss",
            "ResourceTfHsmLossGrad",
        ]


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_nothing_has_the_size_of_the_kernel(policy):
    """A sampled softmax gathers and updates rows; no tensor has all of them."""
    head = sampled_head(dtype=policy)
    model = keras.Sequential([keras.Input([models.WIDTH]), head])
    model.compile(optimizers.SGD(0.5), head.loss)
    graph = models.train_graph(
        model, np.zeros([8, models.WIDTH], "f4"), np.arange(8)
    )
    kernel = head.kernel.value
    handle = next(i for outer, i in graph.captures if outer is kernel.handle)
    kinds = sorted({op.type for op in handle.consumers()})
    assert kinds == ["ResourceGather", "ResourceTfHsmSparseUpdate"]
    for op in graph.get_operations():
        if op.type not in ("Placeholder", "Const"):  # the tables of the draws
            for tensor in op.outputs:
                assert list(tensor.shape[:1]) != [models.NUM_CLASSES], op.name


def test_xla_stays_off():
    """It has no such op; Keras would turn it on where there is a GPU."""
    assert not models.compile_form().jit_compile
    with pytest.warns(UserWarning, match="doesn't support `jit_compile"):
        model = models.compile_form(compiling={"jit_compile": True})
    models.train(model, *models.make_data(), epochs=1)
