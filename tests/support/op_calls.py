"""Calls of raw ops: what they are given, and how they run."""

import dataclasses
import functools
import itertools

import tensorflow as tf

from tf_hsm.runtime import private_tensorflow
from tf_hsm.runtime.library import raw_ops

# Arguments that are variables, where an op takes any.
PARAMETERS = (
    "weights",
    "biases",
    "slots",
    "weight_slots",
    "bias_slots",
    "vectors",
    "vector_slots",
    "scales",
)


def raw_name(op, on_variables):
    return f"{'resource_' * on_variables}tf_hsm_{op}"


@functools.cache
def _variable(dtype, number):
    zero = tf.zeros([], dtype)
    return tf.Variable(zero, shape=tf.TensorShape(None))


@dataclasses.dataclass
class Call:
    """The arguments of one raw op.

    Attributes:
        op: Its name, without the prefixes.
        on_variables: Whether its parameters are variables.
        arguments: Name -> list of arrays, of one unless the op takes a list.
            An element may be a tensor, which is then passed as it is.
        attributes: Name -> value.
    """

    op: str
    on_variables: bool
    arguments: dict
    attributes: dict

    @property
    def raw_op(self):
        return getattr(raw_ops, raw_name(self.op, self.on_variables))

    @property
    def lists(self):
        """The names of the arguments that the op takes lists of."""
        name = raw_name(self.op, self.on_variables).title().replace("_", "")
        arguments = private_tensorflow.op_definition(name).input_arg
        return [a.name for a in arguments if a.number_attr or a.type_list_attr]

    def parameters(self):
        """The names of the arguments that are variables."""
        names = PARAMETERS if self.on_variables else ()
        return [name for name in names if name in self.arguments]

    def variables(self):
        """Puts the parameters into variables that live on, if any.

        Returns:
            Name of an argument -> list of variables, or of what is a tensor.
        """
        made, number = {}, itertools.count()
        for name in self.parameters():
            made[name] = []
            for value in self.arguments[name]:
                if not isinstance(value, tf.Tensor):
                    array = value
                    value = _variable(tf.as_dtype(array.dtype), next(number))
                    value.assign(array, read_value=False)
                made[name].append(value)
        return made

    def tensors(self):
        """The other arguments as tensors, likewise."""
        given = {
            name: values
            for name, values in self.arguments.items()
            if name not in self.parameters()
        }
        return {
            k: [tf.convert_to_tensor(v) for v in vs] for k, vs in given.items()
        }

    def run(self, held=None, given=None):
        """Calls the op.

        Args:
            held: What `variables` has made of it; by default made here.
            given: What `tensors` has made of it; by default what it would make.

        Returns:
            What the op returns.
        """
        held = self.variables() if held is None else held
        arguments = dict(self.arguments) if given is None else dict(given)
        for name, values in held.items():
            arguments[name] = [
                v if isinstance(v, tf.Tensor) else v.handle for v in values
            ]
        for name in arguments.keys() - self.lists:
            arguments[name] = arguments[name][0]
        return self.raw_op(**arguments, **self.attributes)

    def trace(self):
        """Builds the op in a graph, for its shape function alone."""
        with tf.Graph().as_default():
            symbols = {
                name: [_symbol(v, name in self.parameters()) for v in values]
                for name, values in self.arguments.items()
            }
            self.run({}, symbols)


def _symbol(value, is_variable):
    """What stands in a graph for an argument; its shape is known."""
    if isinstance(value, tf.Tensor):
        return tf.compat.v1.placeholder(value.dtype, value.shape)
    dtype = tf.as_dtype(value.dtype)
    if is_variable:
        return tf.raw_ops.VarHandleOp(dtype=dtype, shape=value.shape)
    if value.size > 10_000:
        return tf.compat.v1.placeholder(dtype, value.shape)
    return tf.constant(value, dtype)
