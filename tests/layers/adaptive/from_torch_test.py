"""AdaptiveSoftmax.from_torch of objects that stand in for PyTorch's.

torch_test.py has PyTorch itself, where that is installed.
"""

import types

import ml_dtypes
import numpy as np
import pytest

from tf_hsm.layers import AdaptiveSoftmax


class Parameter:
    """What `from_torch` reads of a torch.nn.Parameter."""

    def __init__(self, values):
        self.values = values
        self.dtype = f"torch.{values.dtype}"

    def detach(self):
        return self

    cpu = detach

    def double(self):
        return Parameter(self.values.astype("f8"))

    def numpy(self):
        return self.values


def make_module(dtype, tail_dtype=None):
    """A module of 5 classes on 4 inputs, with one cutoff at 3."""
    rng = np.random.default_rng(0)

    def linear(rows, columns, dtype=dtype):
        weight = Parameter(rng.normal(size=[rows, columns]).astype(dtype))
        return types.SimpleNamespace(weight=weight, bias=None)

    return types.SimpleNamespace(
        cutoffs=[3, 5],
        div_value=2.0,
        in_features=4,
        head=linear(4, 4),
        tail=[[linear(2, 4, tail_dtype or dtype), linear(2, 2)]],
    )


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", ml_dtypes.bfloat16, "float16"]
)
def test_the_type_stays(dtype):
    module = make_module(dtype)
    layer = AdaptiveSoftmax.from_torch(module)
    pairs = [
        (layer.head_kernel, module.head.weight.values),
        (layer.projections[0], module.tail[0][0].weight.values.T),
        (layer.tail_kernels[0], module.tail[0][1].weight.values),
    ]
    for variable, values in pairs:
        assert variable.dtype == np.dtype(dtype).name
        np.testing.assert_array_equal(variable.numpy(), values)


def test_a_given_type():
    layer = AdaptiveSoftmax.from_torch(make_module("float64"), dtype="float32")
    assert {v.dtype for v in layer.weights} == {"float32"}


def test_several_types():
    module = make_module("float32", "float64")
    with pytest.raises(ValueError, match=r"float32 and float64.* pass dtype="):
        AdaptiveSoftmax.from_torch(module)


def quantized():
    module = make_module("float32")
    module.head.weight = lambda: None  # as PyTorch has it
    return module


@pytest.mark.parametrize("module", [None, 3, "model.pt", {}, quantized()])
def test_another_module(module):
    message = (
        "module must be a torch.nn.AdaptiveLogSoftmaxWithLoss, but is "
        f"{type(module).__name__}"
    )
    with pytest.raises(TypeError, match=message):
        AdaptiveSoftmax.from_torch(module)
