"""Loads the op library, and says in one sentence when it cannot."""

import functools
import os
import platform

import keras
import numpy as np
import tensorflow as tf

from tf_hsm import _build
from tf_hsm.runtime import private_tensorflow

# The library is compiled against the headers of one TensorFlow minor.
_TENSORFLOW_MINOR = "2.21"


def op_library_path() -> str:
    """The file for `tf.load_op_library` in a process without tf_hsm.

    A process that loads it need not import tf_hsm to run a SavedModel with its
    ops, but the same minor version of TensorFlow. A process may load several
    copies of the library, as several exports have them, but one build only.

    Returns:
      An absolute path, as a string.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return os.path.join(package, "_tf_hsm_ops.so")


def _check_process():
    """Raises an ImportError where this process cannot have the package."""
    if keras.config.backend() != "tensorflow":
        raise ImportError(
            "tf_hsm needs Keras on TensorFlow, but Keras' backend is "
            f"{keras.config.backend()}: set the environment variable "
            'KERAS_BACKEND, or "backend" in keras.json, to tensorflow before '
            "Keras is imported"
        )
    if private_tensorflow.has_gradient("TfHsmLoss"):
        raise ImportError(
            "tf_hsm has been imported in this process before, from here or "
            "from another folder, and TensorFlow keeps its gradient functions: "
            "start a new process (importlib.reload(tf_hsm) needs none)"
        )
    own = _build.hash_of(op_library_path())
    for path in _mapped_libraries():
        if _build.hash_of(path) != own:
            raise ImportError(
                "this process has loaded another build of tf_hsm's op library, "
                f"{path} ({_build.hash_of(path)}), and cannot have a second "
                f"one, {op_library_path()} ({own}): export the model again "
                "with this build, or import tf_hsm in a new process"
            )


def _mapped_libraries():
    """Returns the op libraries in the memory of the process, a set of paths."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as file:
            paths = {line.split(maxsplit=5)[-1].strip() for line in file}
    except OSError:
        return set()
    return {path for path in paths if path.endswith("/_tf_hsm_ops.so")}


def _load():
    minor = ".".join(tf.__version__.split(".")[:2])
    if minor != _TENSORFLOW_MINOR:
        raise ImportError(
            f"tf_hsm was built for TensorFlow {_TENSORFLOW_MINOR}, but this is "
            f"TensorFlow {tf.__version__}: install tensorflow=="
            f"{_TENSORFLOW_MINOR}.* or a tf_hsm wheel built for {minor}."
        )
    path = op_library_path()
    if not os.path.exists(path):
        raise ImportError(
            f"{path} is missing: install the wheel (bazel build //:wheel), or "
            "run through bazel, which builds it."
        )
    _check_process()
    return private_tensorflow.load_op_library(path, "TfHsm")


raw_ops = _load()


def allowed_values(op_name, attribute):
    """The values that an op's attribute may have: strings or `tf.DType`s."""
    attributes = private_tensorflow.op_definition(op_name).attr
    (allowed,) = [a.allowed_values for a in attributes if a.name == attribute]
    types = [tf.as_dtype(t) for t in allowed.list.type]
    return types or [name.decode() for name in allowed.list.s]


@functools.cache
def constants():
    """The constants of the op library that decide what CPU kernels keep.

    Returns:
      A named tuple of integers: see the op `TfHsmConstants`.
    """
    with tf.init_scope():
        found = raw_ops.tf_hsm_constants()
        return type(found)(*(int(value) for value in found))


def cpu_isa() -> str:
    """Names the instruction set that the CPU kernels run with.

    The best that the machine has is chosen once per process; the environment
    variable `TF_HSM_CPU_ISA` chooses another.

    Returns:
      "baseline", "avx2", "avx512" or "amx", which is "avx512" but for float32
      and bfloat16 weights.

    Raises:
      tf.errors.InvalidArgumentError: `TF_HSM_CPU_ISA` names none that this
        machine can run.
    """
    return raw_ops.tf_hsm_cpu_isa().numpy().decode()


def library_version() -> str:
    """The version of tf_hsm that the op library was compiled as.

    Within `tf.device("/job:ps/task:0")`, the version of the library that this
    task of a cluster has loaded.

    Returns:
      A string like "0.1.0".

    Raises:
      tf.errors.NotFoundError: the task has loaded no library, or one that is
        older than this op.
    """
    return raw_ops.tf_hsm_version().numpy().decode()


def build_info() -> dict[str, str]:
    """Says which build of tf_hsm runs, and on what, for a report of a fault.

    >>> tf_hsm.build_info()["build"]
    '3f0c5a1be2d4'

    Returns:
      A dictionary: "tf_hsm", the version; "build", a hash of the package's
      modules and of the op library, which tells two builds of one version
      apart; "cpu_isa", as `cpu_isa` returns it; and the versions of
      "tensorflow", "keras", "numpy" and "python".
    """
    return {
        "tf_hsm": _build.VERSION,
        "build": _build.fingerprint(),
        "cpu_isa": cpu_isa(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
