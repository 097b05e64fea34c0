"""The private modules of TensorFlow and Keras that tests need."""

from tensorflow.core.framework import tensor_pb2
from tensorflow.python.distribute import collective_all_reduce_strategy
from tensorflow.python.distribute import sharded_variable as sharded
from tensorflow.python.eager import context


def tensor_proto(**fields):
    """A `TensorProto` of these fields, perhaps one that no tensor has."""
    return tensor_pb2.TensorProto(**fields)


def sharded_variable(parts):
    """What a strategy with a `variable_partitioner` makes, of its parts."""
    return sharded.ShardedVariable(parts, "weights")


def forget_kernels():
    """Lets the next eager call of each op make a new kernel."""
    context.context().clear_kernel_cache()


def let_workers_have_cpus(count):
    """Lets each worker of a strategy have so many CPUs, as it has GPUs."""

    def devices(self, resolver, worker):
        return [f"{worker}/device:CPU:{i}" for i in range(count)], "CPU"

    extended = collective_all_reduce_strategy.CollectiveAllReduceExtended
    extended._initialize_local_devices = devices
