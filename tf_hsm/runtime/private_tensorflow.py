"""The private interfaces of TensorFlow that this package needs.

private_saving.py has the interfaces of checkpoints and files.
"""

import contextlib
import weakref

import tensorflow as tf
from tensorflow.core.framework import device_attributes_pb2, op_def_pb2
from tensorflow.python import pywrap_tfe
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.distribute import (
    collective_all_reduce_strategy,
    sharded_variable,
)
from tensorflow.python.eager import context, forwardprop_util, record, tape
from tensorflow.python.framework import (
    _pywrap_python_op_gen,
    auto_control_deps_utils,
    kernels,
    op_def_registry,
    ops,
)
from tensorflow.python.ops import control_flow_util, resource_variable_ops
from tensorflow.python.ops.parallel_for import pfor


def load_op_library(path, infix):
    """Loads ops as `tf.load_op_library` does, also where a copy has them.

    TensorFlow wraps the ops alone that no other file has registered before.

    Args:
      path: of the library.
      infix: what the names of all of its ops have in them.
    """
    module = tf.load_op_library(path)
    known = op_def_pb2.OpList.FromString(
        pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    )
    ops = op_def_pb2.OpList(op=[op for op in known.op if infix in op.name])
    wrappers = _pywrap_python_op_gen.GetPythonWrappers(ops.SerializeToString())
    exec(wrappers, module.__dict__)
    return module


def eager_mode():
    """A context in which ops run at once, also where a graph is being built."""
    return context.eager_mode()


def has_tape():
    """Whether a tape records, as in a training step."""
    return record.could_possibly_record()


def will_recompute():
    """Whether `tf.recompute_grad` calls, which calls again under a tape."""
    return pywrap_tfe.TFE_Py_TapeSetIsStopped()


def watch(variable):
    """Lets tapes watch a variable that is not trainable."""
    tape.variable_accessed(variable)


def note_read(variable):
    """Tells tapes and the traced function that an op reads a variable."""
    resource_variable_ops.variable_accessed(variable)


def in_forward_mode(tensors):
    """Whether a `tf.autodiff.ForwardAccumulator` watches a tensor or handle."""
    # `indices` has a tuple for each accumulator.
    return has_tape() and any(forwardprop_util.pack_tangents(tensors).indices)


def is_sharded(value):
    """Whether a `variable_partitioner` has cut a variable."""
    return isinstance(value, sharded_variable.ShardedVariable)


def unmirrored():
    """A scope whose variables no strategy copies or places."""
    create = resource_variable_ops.default_variable_creator_v2
    return tf.variable_creator_scope(lambda _, **options: create(**options))


@contextlib.contextmanager
def infinities():
    """A scope that `tf.debugging.enable_check_numerics` does not check."""
    callbacks = context.context().op_callbacks  # the list of this thread
    before = callbacks[:]
    callbacks.clear()
    try:
        yield
    finally:
        callbacks.extend(before)


def allow_infinities(function):
    """Decorates a function whose answer may be minus infinity."""
    unchecked = infinities()(function)
    return tf.autograph.experimental.do_not_convert(unchecked)


def traced_function():
    """A weak reference to the outermost graph in the making; None if eager."""
    graph, outermost = tf.compat.v1.get_default_graph(), None
    while hasattr(graph, "outer_graph"):
        graph, outermost = graph.outer_graph, graph
    return outermost and weakref.ref(outermost)


def kernel_devices(op_name):
    """Returns the types of devices that have a kernel of an op, a set."""
    registered = kernels.get_registered_kernels_for_op(op_name).kernel
    return {kernel.device_type for kernel in registered}


def is_in_xla():
    """Whether TensorFlow traces a graph for XLA."""
    graph = tf.compat.v1.get_default_graph()
    return control_flow_util.GraphOrParentsInXlaContext(graph)


def has_gradient(op_name):
    """Whether an op has a registered gradient function."""
    return op_name in ops.gradient_registry.list()


def op_definition(op_name):
    """The `OpDef` of an op by its name in graphs, or None."""
    return op_def_registry.get(op_name)


def declare_read_only(*op_names):
    """Lets reads of a variable by these ops run side by side in a function."""
    for name in op_names:
        auto_control_deps_utils.register_read_only_resource_op(name)


def declare_reads(call, numbers):
    """Says that the call of a function changes none of some inputs."""
    read_only = tf.compat.v1.AttrValue.ListValue(i=numbers)
    value = tf.compat.v1.AttrValue(list=read_only)
    call._set_attr("_read_only_resource_inputs", value)


def vectorize_by_loop(*op_names):
    """Lets `tf.vectorized_map` run ops with variant outputs in a loop."""
    for name in op_names:
        pfor.RegisterPFor(name)(pfor._fallback_converter)


def shape_of_variable(handle):
    """The shape of the variable that a graph has a handle of."""
    data = resource_variable_ops.get_eager_safe_handle_data(handle)
    return tf.TensorShape(data.shape_and_type[0].shape)


def function_graph(graph, name):
    """The graph of the function that an op of a graph calls by its name."""
    return graph._get_function(name).graph


def flops_of(operation):
    """The FLOPs that `tf.profiler` counts for an op, or None."""
    graph, node = operation.graph, operation.node_def
    return ops.get_stats_for_node_def(graph, node, "flops").value


def register_flops(op_name, function):
    """Tells `tf.profiler` the FLOPs of an op: `function(operation)`."""

    def flops(graph, node):
        operation = graph.get_operation_by_name(node.name)
        return ops.OpStats("flops", function(operation))

    ops.RegisterStatistics(op_name, "flops")(flops)


def device_attributes(serialized):
    """The `DeviceAttributes` of a device that a server has sent as bytes."""
    return device_attributes_pb2.DeviceAttributes.FromString(serialized)


def never_stop_failure_handler(coordinator):
    """Lets a `ClusterCoordinator` be deleted while it waits for a worker."""
    coordinator._cluster.failure_handler.stop = lambda: None


def report_error(code, message):
    """Ends the collectives of all other workers with an error."""
    context.context().report_error_to_cluster(code, message)


def all_gather(strategy, device, values):
    """Gathers values of one shape; the public function also gathers shapes."""
    return _launcher(strategy, device)._all_gather(values, None)


def all_to_all(strategy, device, values):
    """Sends `values[i]` to replica i, for which there is no public function."""
    launcher = _launcher(strategy, device)
    key = launcher._next_instance_key()
    with tf.device(launcher._device):
        return tf.raw_ops.CollectiveAllToAllV2(
            input=values,
            group_size=launcher._group_size,
            group_key=launcher._group_key,
            instance_key=key,
            ordering_token=[launcher._get_ordering_token()],
            communication_hint=launcher._options.implementation.value,
            timeout_seconds=launcher._options.timeout_seconds,
        )


@contextlib.contextmanager
def bfloat16_copies():
    """A scope in which the workers of a strategy can make bfloat16 variables.

    One worker sends the others the initial values, by an op that takes no
    bfloat16. In the scope their bits travel as float16.
    """
    extended = tf.distribute.get_strategy().extended
    of_workers = collective_all_reduce_strategy.CollectiveAllReduceExtended
    name = "_get_variable_creator_initial_value"
    if not isinstance(extended, of_workers) or name in vars(extended):
        yield  # Nothing to do, or done by a scope around this one.
        return
    make = extended._get_variable_creator_initial_value

    def by_bits(replica_id, device, primary_var, **kwargs):
        def make_as(**changed):
            return make(replica_id, device, primary_var, **kwargs | changed)

        dtype = kwargs.get("dtype")
        if replica_id or dtype is None or tf.as_dtype(dtype) != tf.bfloat16:
            return make_as()

        def bits():
            value = kwargs["initial_value"]
            value = value() if callable(value) else value
            value = tf.convert_to_tensor(value, tf.bfloat16)
            return tf.bitcast(value, tf.float16)

        sent = make_as(initial_value=bits, dtype=tf.float16)
        return lambda: tf.bitcast(sent(), tf.bfloat16)

    extended._get_variable_creator_initial_value = by_bits
    try:
        yield
    finally:
        delattr(extended, name)


def _launcher(strategy, device):
    """Returns the launcher of a strategy's collectives on its n-th device."""
    return strategy.extended._cross_device_ops._launchers[device]
