"""What a process must be to import the package."""

import json
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
LOAD = """
import tensorflow as tf
tf.load_op_library({!r})
"""
# A reload needs no second registration of gradients.
TWICE = f"""
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
# Each program runs in a fork of a process that has TensorFlow and no tf_hsm.
FORKS = """
import json, os, sys, traceback
import tensorflow
assert "tf_hsm" not in sys.modules
for name, program in json.loads(sys.argv[1]).items():
    if os.fork():
        os.wait()
        continue
    try:
        exec(program, {})
    except Exception:
        traceback.print_exc(file=sys.stdout)
    print("=", name, flush=True)
    os._exit(0)
"""


def run(*arguments, **environment):
    """Returns the lines that a new Python prints."""
    result = subprocess.run(
        [sys.executable, "-c", *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return result.stdout.splitlines()


@pytest.fixture(scope="module")
def last_lines(tmp_path_factory):
    """What each program prints last."""
    its_own = library.op_library_path()
    # As an export has it.
    copy = shutil.copy(its_own, tmp_path_factory.mktemp("copy") / "ops.so")
    programs = {
        "twice": TWICE,
        "copy before": f"{LOAD.format(str(copy))}\nimport tf_hsm",
        "its own before": f"{LOAD.format(its_own)}\nimport tf_hsm\n{LOSS}",
        "copy after": f"import tf_hsm\n{LOAD.format(str(copy))}\n{LOSS}",
    }
    lines = run(FORKS, json.dumps(programs))
    return {name: lines[lines.index(f"= {name}") - 1] for name in programs}


def test_another_backend(monkeypatch):
    """By the variable, before Keras is imported; by keras.json, after."""
    found = run("import tf_hsm", KERAS_BACKEND="torch")[-1]
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


def test_a_second_import(last_lines):
    assert last_lines["twice"].startswith(
        "(1,) tf_hsm has been imported in this process before"
    )


def test_copies_of_the_op_library(last_lines):
    """Refused before one spoils the first; the library itself is no copy."""
    message = "has loaded a copy of tf_hsm's op library"
    assert message in last_lines["copy before"]
    assert last_lines["its own before"] == "losses (1,)"
    assert last_lines["copy after"].startswith(
        "ImportError: this process has loaded a second copy"
    )
