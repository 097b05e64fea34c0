"""The resource variables behind what users pass, for ops and tapes."""

import contextlib

import keras
import tensorflow as tf

from tf_hsm.runtime import private_keras, private_tensorflow
from tf_hsm.runtime.quantized_rows import QuantizedRows


def variable_of(value):
    """The resource variable behind `value`, or None if there is none.

    Takes tf.Variable and Keras variables. In an autocast or stateless scope a
    Keras variable stands for a tensor, and None is returned. The variable of
    `QuantizedRows` is the variable of the codes.

    Raises:
      TypeError: a `variable_partitioner` has cut it.
    """
    if isinstance(value, QuantizedRows):
        value = value.codes
    value = value.value if isinstance(value, keras.Variable) else value
    if private_tensorflow.is_sharded(value):
        raise TypeError(
            f"{value.name} is a ShardedVariable of {len(value.variables)} "
            "parts, but an op of tf_hsm reads one variable: make the weights "
            "without the strategy's variable_partitioner, or cut the tree, "
            "HierarchicalSoftmax(tree, devices=...)"
        )
    return value if isinstance(value, tf.Variable) else None


def handle_of(value):
    """The handle of a variable, of which tapes are told; or else `value`.

    Gradients need that, and exports of functions with their variables. Outside
    the replicas of a `tf.distribute.Strategy`, which have a copy each, it is
    the handle of the first copy.
    """
    variable = variable_of(value)
    if variable is None:
        return value
    private_tensorflow.note_read(variable)
    if tf.distribute.in_cross_replica_context():
        strategy = tf.distribute.get_strategy()
        variable = strategy.experimental_local_results(variable)[0]
    return variable.handle


@contextlib.contextmanager
def explain_lost_values(find_variables):
    """Says in an error if it leaves variables of Keras without values.

    Those of a model that `fit` builds are made in the graph of its first step,
    and get their values when that runs.

    Args:
      find_variables: returns those that there are, a list.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if private_keras.lack_values(find_variables()):
            error.args = (
                f"{error}\nThe model must be made anew too: its variables were "
                "made in this first step, and Keras leaves them without values "
                "where that fails",
            )
        raise
