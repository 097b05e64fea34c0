"""What a process must be to import the package; each case is a new process."""

import os
import shutil
import subprocess
import sys

import keras
import pytest

from tf_hsm import _start
from tf_hsm.runtime import library

LOSS = """
import tensorflow as tf
tree = tf_hsm.Tree.two_level(9)
losses = tf_hsm.hierarchical_softmax_loss(
    tf.ones([tree.num_rows, 2]), None, [1], tf.ones([1, 2]), tree)
print("losses", losses.shape)
"""


def run(program, **environment):
    """Returns the last line of a program's output."""
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.stdout.splitlines()[-1]


def copy_in(folder):
    """Returns a copy of the op library, as an export has it."""
    return str(shutil.copy(library.op_library_path(), folder / "ops.so"))


def test_another_backend(monkeypatch):
    """By the variable, before Keras is imported; by keras.json, after."""
    found = run("import tf_hsm", KERAS_BACKEND="torch")
    assert found.startswith("ImportError: tf_hsm needs Keras on TensorFlow")
    assert "KERAS_BACKEND is torch" in found
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ImportError, match="Keras' backend is jax: set the"):
        library._check_process()


def test_legacy_keras(monkeypatch):
    for value, warns in (("1", True), ("True", True), ("0", False)):
        monkeypatch.setenv("TF_USE_LEGACY_KERAS", value)
        if warns:
            with pytest.warns(UserWarning, match="write `import keras`"):
                _start.warn_of_legacy_keras()
        else:
            _start.warn_of_legacy_keras()
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # too late to have an effect
    _start.check_backend()


def test_a_second_import():
    """A reload needs no second registration of gradients."""
    program = f"""
import importlib, sys
import tf_hsm
importlib.reload(tf_hsm)
{LOSS}
for name in [n for n in sys.modules if n.split(".")[0] == "tf_hsm"]:
    del sys.modules[name]
try:
    import tf_hsm
except ImportError as error:
    print(losses.shape, error)
"""
    assert run(program).startswith(
        "(1,) tf_hsm has been imported in this process before"
    )


def test_a_copy_before(tmp_path):
    """Refused before it spoils the first; the library itself is no copy."""
    path = copy_in(tmp_path)
    program = """
import tensorflow as tf
tf.load_op_library({!r})
import tf_hsm
"""
    assert "has loaded a copy of tf_hsm's op library" in run(
        program.format(path)
    )
    its_own = program.format(library.op_library_path())
    assert run(its_own + LOSS) == "losses (1,)"


def test_a_copy_after(tmp_path):
    program = "import tf_hsm\nimport tensorflow as tf\ntf.load_op_library"
    assert run(f"{program}({copy_in(tmp_path)!r})\n{LOSS}").startswith(
        "ImportError: this process has loaded a second copy"
    )
