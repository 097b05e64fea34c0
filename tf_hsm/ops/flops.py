"""The FLOPs of the ops for `tf.profiler` and `tf_hsm.estimate`.

2 FLOPs for each multiplication of a weight with its addition; exponentials are
few beside them. Labels are taken to be each class as often. An op counts only
where the graph knows its shapes and its tree.
"""

import math

import numpy as np
import tensorflow as tf

from tf_hsm.runtime import private_tensorflow

# Products of a row with an example: its logit, and the gradients by the example
# and by the row.
_LOGIT, _LOSS, _STEP = 1, 2, 3
_MULTIPLY_ADD = 2


def _of_loss(operation):
    products = _LOSS if operation.get_attr("with_gradients") else _LOGIT
    return products * _of_paths(operation, "labels")


def _of_kept_loss(operation):
    """The gradients by rows; the losses' own op knows labels and tree."""
    loss = _input(operation, "state").op
    return _of_paths(loss, "labels")


def _of_step(operation):
    return _STEP * _of_paths(operation, "labels")


def _of_class_log_probs(operation):
    return _of_paths(operation, "classes")


def _of_all_rows(operation):
    """All rows with all examples; for a search, the most that it computes."""
    rows, _ = _weights_shape(operation)
    return _MULTIPLY_ADD * rows * _size(_input(operation, "inputs"))


def _of_paths(operation, labels):
    _, width = _weights_shape(operation)
    examples = _size(_input(operation, labels))
    numbers = examples * width * _mean_rows(operation)
    return round(_MULTIPLY_ADD * numbers)


def _mean_rows(operation):
    """Rows of weights on the path to a class, in the mean over classes.

    Those of the groups on the path; of a pinned tree half of them have weights.
    """
    fanouts = np.diff(_value(operation, "group_offsets"))
    parents = _value(operation, "group_parents")
    row_groups = _value(operation, "row_groups")
    rows = _value(operation, "class_rows")
    num_classes, total = rows.size, 0
    while rows.size:
        groups = row_groups[rows]
        total += fanouts[groups].sum()
        rows = parents[groups]
        rows = rows[rows >= 0]
    num_weights, _ = _weights_shape(operation)
    return total / num_classes * (num_weights / fanouts.sum())


def _weights_shape(operation):
    weights = operation.inputs[0]
    if weights.dtype != tf.resource:
        return weights.shape.as_list()
    return private_tensorflow.shape_of_variable(weights).as_list()


def _size(tensor):
    return math.prod(tensor.shape.as_list())


def _value(operation, name):
    """The array that an input is, captured by this graph or by one around."""
    tensor, graph = _input(operation, name), operation.graph
    while tf.is_symbolic_tensor(tensor):
        captured = {id(inner): outer for outer, inner in graph.captures}
        tensor, graph = captured[id(tensor)], graph.outer_graph
    return tensor.numpy()


def _input(operation, name):
    """The tensor that an op has as a named input, which is no list."""
    begin = 0
    for argument in operation.op_def.input_arg:
        if argument.name == name:
            return operation.inputs[begin]
        if argument.number_attr:
            begin += operation.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            begin += len(operation.get_attr(argument.type_list_attr))
        else:
            begin += 1
    raise KeyError(name)


def _register(name, flops):
    def known(operation):
        # A shape, or a tree, that the graph does not know.
        try:
            return flops(operation)
        except (AttributeError, KeyError, TypeError):
            return None

    for op_name in (name, f"Resource{name}"):
        private_tensorflow.register_flops(op_name, known)


_register("TfHsmLoss", _of_loss)
_register("TfHsmLossGrad", _of_kept_loss)
# As if no parameter had moved since the loss.
_register("TfHsmLossStep", _of_kept_loss)
_register("TfHsmTrainStep", _of_step)
_register("TfHsmEmbeddingTrainStep", _of_step)
# As if each example had labels, and no two of them a group in common.
_register("TfHsmLabelTreeLoss", _of_loss)
_register("TfHsmLabelTreeTrainStep", _of_step)
_register("TfHsmClassLogProbs", _of_class_log_probs)
_register("TfHsmLogProbs", _of_all_rows)
_register("TfHsmLogProbsGrad", _of_all_rows)
_register("TfHsmTopK", _of_all_rows)
_register("TfHsmLabelRanks", _of_all_rows)
