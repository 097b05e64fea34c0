"""What a process must be to import the package."""

import json
import os
import shutil
import subprocess
import sys
import warnings

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
def printed(tmp_path_factory):
    """The lines that each program prints."""
    its_own = library.op_library_path()
    # As exports have them.
    copies = [tmp_path_factory.mktemp("copy") / "_tf_hsm_ops.so" for _ in "123"]
    for path in copies:
        shutil.copy(its_own, path)
    with open(copies[2], "ab") as file:
        file.write(b"another build")
    own, one, two, other = (LOAD.format(str(x)) for x in (its_own, *copies))
    programs = {
        "twice": TWICE,
        "copies before": f"{one}{two}\nimport tf_hsm\n{LOSS}",
        "its own before": f"{own}\nimport tf_hsm\n{LOSS}",
        "copies after": f"import tf_hsm\n{one}{two}\n{LOSS}",
        "other before": f"{other}\nimport tf_hsm",
        "other after": f"import tf_hsm\n{other}\n{LOSS}",
    }
    lines = run(FORKS, json.dumps(programs))
    ends = [lines.index(f"= {name}") for name in programs]
    starts = [0, *(end + 1 for end in ends)]
    return {
        name: lines[start:end]
        for name, start, end in zip(programs, starts, ends, strict=False)
    }


def test_another_backend(monkeypatch):
    """By the variable, before Keras is imported; by keras.json, after."""
    found = run("import tf_hsm", KERAS_BACKEND="torch")[-1]
    assert found.startswith("ImportError: tf_hsm needs Keras on TensorFlow")
    assert "KERAS_BACKEND is torch" in found
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(ImportError, match="Keras' backend is jax: set the"):
        library._check_process()


def test_legacy_keras(monkeypatch):
    for value in ("1", "True"):
        monkeypatch.setenv("TF_USE_LEGACY_KERAS", value)
        with pytest.warns(UserWarning, match="write `import keras`"):
            _start.warn_of_legacy_keras()
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _start.warn_of_legacy_keras()
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # too late to have an effect
    _start.check_backend()


def test_a_second_import(printed):
    assert printed["twice"][-1].startswith(
        "(1,) tf_hsm has been imported in this process before"
    )


def test_copies_of_the_op_library(printed):
    """Kernels are registered once; two builds are refused, or told."""
    for name in ("copies before", "its own before", "copies after"):
        assert printed[name][-1] == "losses (1,)"
    message = "ImportError: this process has loaded another build"
    assert printed["other before"][-1].startswith(message)
    assert printed["other after"][-1] == "losses (1,)"
    told = "\n".join(printed["other after"])
    assert "has two builds of tf_hsm's op library" in told
