"""Every use of a TensorFlow interface that is not public, in one place."""

import atexit
import contextlib
import functools

import keras
import tensorflow as tf
from tensorflow.core.framework import device_attributes_pb2
from tensorflow.python.distribute import sharded_variable
from tensorflow.python.eager import context, forwardprop_util, record, tape
from tensorflow.python.framework import (
    auto_control_deps_utils,
    op_def_registry,
    ops,
)
from tensorflow.python.ops import control_flow_util, resource_variable_ops
from tensorflow.python.ops.parallel_for import pfor

from tf_hsm.runtime.quantized_rows import QuantizedRows


def has_tape():
    """Whether there is a tape, as in a step of training."""
    return record.could_possibly_record()


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
    if isinstance(value, sharded_variable.ShardedVariable):
        raise TypeError(
            f"{value.name} is a ShardedVariable of {len(value.variables)} "
            "parts, but an op of tf_hsm reads one variable: make the weights "
            "without the strategy's variable_partitioner, or cut the tree, "
            "HierarchicalSoftmax(tree, devices=...)"
        )
    return value if resource_variable_ops.is_resource_variable(value) else None


def handle_of(value):
    """The handle of a variable, of which tapes are told; or else `value`.

    Gradients need that, and exports of functions with their variables. Outside
    the replicas of a `tf.distribute.Strategy`, which have a copy each, it is
    the handle of the first copy.
    """
    variable = variable_of(value)
    if variable is None:
        return value
    resource_variable_ops.variable_accessed(variable)
    if tf.distribute.in_cross_replica_context():
        strategy = tf.distribute.get_strategy()
        variable = strategy.experimental_local_results(variable)[0]
    return variable.handle


def watched_handle(variable):
    """The handle of a variable that tapes are to watch, trainable or not.

    Raises:
      ValueError: a tape has `watch_accessed_variables=False`, and no other one
        watches it.
    """
    tape.variable_accessed(variable)
    handle = variable.handle
    if (
        tf.executing_eagerly()
        and record.could_possibly_record()
        and not record.should_record_backprop([handle])
    ):
        raise ValueError(
            f"{variable.name} is trained when a tape asks for gradients, but "
            "the tape does not watch it; leave out watch_accessed_variables="
            "False"
        )
    return handle


def copies_of(variable):
    """The copies that a strategy has of a variable; a plain one alone."""
    variable = variable_of(variable)
    if isinstance(variable, tf.distribute.DistributedValues):
        return list(variable.values)
    return [variable]


def strategy_of(variable):
    """A scope of the strategy that has copies of a variable; or no scope."""
    variable = variable_of(variable)
    if isinstance(variable, tf.distribute.DistributedValues):
        return variable.distribute_strategy.scope()
    return contextlib.nullcontext()


@contextlib.contextmanager
def unmirrored():
    """A scope whose variables no strategy copies or places."""

    def create(next_creator, **options):
        del next_creator
        return resource_variable_ops.default_variable_creator_v2(**options)

    with tf.variable_creator_scope(create):
        yield


@contextlib.contextmanager
def infinities():
    """A scope for ops for which infinities are the rule.

    `tf.debugging.enable_check_numerics` takes no notice of them.
    """
    callbacks = context.context().op_callbacks  # the list of this thread
    before = callbacks[:]
    callbacks.clear()
    try:
        yield
    finally:
        callbacks.extend(before)


def answers_infinity(function):
    """Decorates a function whose answer may be minus infinity."""

    @tf.autograph.experimental.do_not_convert
    @functools.wraps(function)
    def unchecked(*args, **kwargs):
        with infinities():
            return function(*args, **kwargs)

    return unchecked


def is_recording():
    """Whether a gradient may be asked for later; in a graph, always."""
    return not tf.executing_eagerly() or record.could_possibly_record()


def is_in_xla():
    """Whether a graph is being traced for XLA."""
    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)


def in_forward_mode(tensors):
    """Whether a `tf.autodiff.ForwardAccumulator` watches one of some tensors.

    Args:
      tensors: tensors, and handles of variables.
    """
    if not record.could_possibly_record():
        return False
    # A tuple for each accumulator.
    return any(forwardprop_util.pack_tangents(tensors).indices)


def has_gradient(op_name):
    """Whether a gradient function of an op is registered."""
    return op_name in ops.gradient_registry.list()


def op_definition(op_name):
    """The `OpDef` of a registered op, by its name in graphs."""
    return op_def_registry.get(op_name)


def allowed_values(op_name, attribute):
    """The values that an op's attribute may have: strings or `tf.DType`s."""
    attributes = {a.name: a for a in op_definition(op_name).attr}
    allowed = attributes[attribute].allowed_values.list
    types = [tf.as_dtype(t) for t in allowed.type]
    return types or [name.decode() for name in allowed.s]


def declare_read_only(*op_names):
    """Lets reads of a variable by these ops run side by side in a function."""
    for name in op_names:
        auto_control_deps_utils.register_read_only_resource_op(name)


def vectorize_by_loop(*op_names):
    """Lets `tf.vectorized_map` run these ops once per element.

    It does so with any op that it does not know, unless that has a variant.
    """
    for name in op_names:
        pfor.RegisterPFor(name)(pfor._fallback_converter)


def call_if_used(function, tensor):
    """`function(tensor)`, left out of a graph that has no use for the result.

    TensorFlow runs each op that reads a variable if anything takes its outputs,
    though nothing takes what comes of those. Here they are ops of a function,
    and a call of that, which must change no variable, is one op.
    """
    if tf.executing_eagerly():
        return function(tensor)
    inner = tf.function(function, autograph=False)
    inner = inner.get_concrete_function(tensor)
    arguments = [tensor, *inner.captured_inputs]
    (output,) = tf.raw_ops.PartitionedCall(
        args=arguments, Tout=[o.dtype for o in inner.outputs], f=inner
    )
    handles = [i for i, a in enumerate(arguments) if a.dtype == tf.resource]
    read_only = tf.compat.v1.AttrValue.ListValue(i=handles)
    output.op._set_attr(
        "_read_only_resource_inputs",
        tf.compat.v1.AttrValue(list=read_only),
    )
    return tf.ensure_shape(output, inner.outputs[0].shape)


def let_exit(coordinator):
    """Lets the process end while a `ClusterCoordinator` waits for a worker.

    When Python ends, it deletes the coordinator, which asks a thread to stop
    that then waits, with a lock, for a lost worker to come back.
    """

    def forget():
        coordinator._cluster.failure_handler.stop = lambda: None

    atexit.register(forget)


def shape_of(tensor):
    """The shape of a tensor, or of the variable whose handle it is."""
    if tensor.dtype != tf.resource:
        return tensor.shape
    data = resource_variable_ops.get_eager_safe_handle_data(tensor)
    return tf.TensorShape(data.shape_and_type[0].shape)


def device_attributes(serialized):
    """The `DeviceAttributes` that a server has sent of a device, as bytes."""
    return device_attributes_pb2.DeviceAttributes.FromString(serialized)


def flops_of(operation):
    """The FLOPs that `tf.profiler` counts of an op; None if it knows none."""
    statistics = ops.get_stats_for_node_def(
        operation.graph, operation.node_def, "flops"
    )
    return statistics.value


def function_graph(operation, name):
    """The graph of the function that an attribute of an op names."""
    function = operation.get_attr(name).name
    return operation.graph._get_function(function).graph


def branch_graphs(operation):
    """The graphs of the branches of an If or a Case."""
    if "If" in operation.type:
        names = ["then_branch", "else_branch"]
        return [function_graph(operation, name) for name in names]
    branches = operation.get_attr("branches")
    return [operation.graph._get_function(b.name).graph for b in branches]


def register_flops(op_name, function):
    """Tells `tf.profiler` the FLOPs of an op: `function(operation)`."""

    @ops.RegisterStatistics(op_name, "flops")
    def flops(graph, node):
        operation = graph.get_operation_by_name(node.name)
        return ops.OpStats("flops", function(operation))

    return flops
