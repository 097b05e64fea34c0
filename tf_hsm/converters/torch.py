"""PyTorch's adaptive softmax, from and to."""

import keras
import numpy as np

# The types that both libraries have for the weights of such a module.
_TYPES = ("bfloat16", "float16", "float32", "float64")

# Arguments of the layer.
_OF_THE_MODULE = (
    "num_classes",
    "cutoffs",
    "div_value",
    "counts",
    "tail",
    "use_bias",
)


def from_torch(layer_type, module, **kwargs):
    """See `AdaptiveSoftmax.from_torch`."""
    _check_module(module)
    *cutoffs, num_classes = module.cutoffs
    for name in _OF_THE_MODULE:
        if name in kwargs:
            raise ValueError(
                f"{name} is taken from the PyTorch module; do not pass it"
            )
    if "dtype" not in kwargs:
        dtype = _type_of(module)
        # A policy such as mixed_bfloat16 stays if it has these variables.
        if keras.config.dtype_policy().variable_dtype != dtype:
            kwargs = {**kwargs, "dtype": dtype}
    has_bias = module.head.bias is not None
    layer = layer_type(
        num_classes,
        cutoffs=cutoffs,
        div_value=module.div_value,
        use_bias="head" if has_bias else False,
        **kwargs,
    )
    layer.build((None, module.in_features))
    layer.head_kernel.assign(_array(module.head.weight))
    if has_bias:
        layer.head_bias.assign(_array(module.head.bias))
    for number, (narrowing, rows) in enumerate(module.tail):
        kernel, narrowing = _array(rows.weight), _array(narrowing.weight)
        if layer.projections[number] is None:
            kernel = kernel @ narrowing
        else:
            layer.projections[number].assign(narrowing.T)
        if layer.tail_kernels[number] is not None:  # else another worker has it
            layer.tail_kernels[number].assign(kernel)
    return layer


def to_torch(layer):
    """See `AdaptiveSoftmax.to_torch`."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            "to_torch makes a module of PyTorch, which is not installed"
        ) from error
    clusters = layer.clusters
    if not layer.cutoffs:
        raise ValueError("PyTorch's adaptive softmax has at least one cutoff")
    if clusters.order is not None:
        raise ValueError(
            "PyTorch's classes are numbered by falling frequency; those of "
            f"{layer.name} are not"
        )
    if any(t.num_groups > 1 or t.pinned for t in clusters.tail_trees):
        raise ValueError("PyTorch's tails are flat; one here is a tree")
    if any(bias is not None for bias in layer.tail_biases):
        raise ValueError(
            "PyTorch's tails have no biases: make the layer with "
            'use_bias="head" or False'
        )
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(
        layer.head_kernel.shape[1],
        layer.num_classes,
        layer.cutoffs,
        layer.spec.div_value,
        head_bias=layer.head_bias is not None,
        dtype=getattr(torch, layer.variable_dtype),
    )

    def assign(parameter, values):
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(np.array(values, np.float64)))

    assign(module.head.weight, _array(layer.head_kernel))
    if layer.head_bias is not None:
        assign(module.head.bias, _array(layer.head_bias))
    for number, (narrowing, rows) in enumerate(module.tail):
        kernel = _array(layer.tail_kernels[number])
        kernel = kernel[clusters.tail_trees[number].class_rows]
        projection = np.eye(kernel.shape[1])
        if layer.projections[number] is not None:
            projection = _array(layer.projections[number])
        assign(narrowing.weight, projection.T)
        assign(rows.weight, kernel)
    return module


def _check_module(module):
    """Raises a TypeError unless `from_torch` can read the module."""
    parts = ("cutoffs", "div_value", "in_features", "head", "tail")
    is_module = all(hasattr(module, name) for name in parts)
    # A quantized module has functions in place of parameters.
    if not is_module or any(not hasattr(w, "detach") for w in _weights(module)):
        raise TypeError(
            "module must be a torch.nn.AdaptiveLogSoftmaxWithLoss, but is "
            f"{type(module).__name__}"
        )


def _weights(module):
    """Returns the matrices of a module, the one of the shortlist first."""
    parts = [module.head, *(part for pair in module.tail for part in pair)]
    return [part.weight for part in parts]


def _type_of(module):
    """Returns the type of a module's weights, such as "float32"."""
    types = [str(w.dtype).removeprefix("torch.") for w in _weights(module)]
    if len(set(types)) > 1 or types[0] not in _TYPES:
        raise ValueError(
            f"the weights of the module are {' and '.join(sorted(set(types)))}"
            f", but a layer has one type, of {', '.join(_TYPES)}; pass dtype="
        )
    return types[0]


def _array(parameter):
    """Returns a copy of a parameter of either library, float64."""
    if hasattr(parameter, "detach"):
        parameter = parameter.detach().cpu().double()
    return parameter.numpy().astype(np.float64)
