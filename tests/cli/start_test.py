"""`python -m tf_hsm` as a process of its own."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tf_hsm import Tree, _start, layers
from tf_hsm.runtime.library import op_library_path


def test_only_the_command_puts_off_imports(monkeypatch):
    for original, arguments, expected in (
        (["python", "-m", "tf_hsm", "tree"], ["tree"], True),
        (["python", "-m", "tf_hsm"], [], True),
        (["python", "-I", "-mtf_hsm"], [], True),
        (["python", "-Imtf_hsm", "--help"], ["--help"], True),
        (["python", "-m", "tf_hsm.__main__"], [], True),
        (["python", "-m", "trainer"], [], False),
        (["python", "-m", "trainer", "tf_hsm"], ["tf_hsm"], False),
        (["python", "-m", "trainer", "-mtf_hsm"], ["-mtf_hsm"], False),
        (["python", "-m", "tf_hsm_x"], [], False),
    ):
        monkeypatch.setattr("sys.orig_argv", original)
        monkeypatch.setattr("sys.argv", ["-m", *arguments])
        assert _start.is_command() == expected
        # Once the module is found, and it imports more.
        monkeypatch.setattr("sys.argv", ["__main__.py", *arguments])
        assert not _start.is_command()


def run(folder, *arguments, first_path="", **environment):
    others = {k: v for k, v in os.environ.items() if k[:6] != "TF_CPP"}
    path = os.pathsep.join([str(first_path), *sys.path])
    return subprocess.run(
        [sys.executable, "-m", "tf_hsm", *arguments],
        env={**others, "PYTHONPATH": path, **environment},
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_module(tmp_path):
    # A terminal that knows no Chinese.
    result = run(
        tmp_path, "tree", "inspect", "猫.npz", PYTHONIOENCODING="ascii"
    )
    assert result.returncode == 2 and not result.stdout
    assert result.stderr == (
        "python -m tf_hsm: No such file or directory: \\u732b.npz\n"
    )


@pytest.mark.parametrize(
    "arguments, status, out, error",
    [
        (["--help"], 0, "Builds, inspects, compares", ""),
        (["tree", "build", "--help"], 0, "Builds a tree and saves it.", ""),
        (["estimate", "--help"], 0, "Says what training a model needs", ""),
        (["cluster_task", "--help"], 0, "Runs one task of a cluster", ""),
        (["--version"], 0, f"tf_hsm {tf_hsm.__version__}, build ", ""),
        (["tre"], 2, "", "invalid choice: 'tre'"),
        (["estimate", "--bach=3"], 2, "", "unrecognized arguments: --bach=3"),
        (["serve"], 2, "", "invalid choice: 'serve'"),
        (["tree", "inspect", "huff"], 2, "", "huff is no tree: neither"),
        (["tree", "compare", "--num_classes=9"], 0, "tree  ", ""),
    ],
)
def test_answers_without_tensorflow(tmp_path, arguments, status, out, error):
    for name in ("tensorflow", "keras", "matplotlib"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}')")
    result = run(tmp_path, *arguments, first_path=tmp_path)
    assert result.returncode == status
    assert result.stdout.startswith(out) and bool(result.stdout) == bool(out)
    assert error in result.stderr and bool(result.stderr) == bool(error)


def test_builds_of_one_version_differ(tmp_path):
    """In one byte of a module or of the op library."""
    package = pathlib.Path(tf_hsm.__file__).parent
    copy = tmp_path / "tf_hsm"
    ignore = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(package, copy, ignore=ignore)
    library = pathlib.Path(op_library_path())
    shutil.copyfile(library, copy / library.name)

    def version():
        return run(tmp_path, "--version", first_path=tmp_path).stdout

    info = tf_hsm.build_info()
    same = version()
    assert same == f"tf_hsm {info['tf_hsm']}, build {info['build']}\n"
    (copy / "notes.txt").write_text("no part of the build")
    assert version() == same
    with open(copy / library.name, "ab") as file:
        file.write(b"\0")
    other = version()
    assert other != same
    with open(copy / "vectors.py", "a") as file:
        file.write("\n")
    assert version() not in (same, other)


def test_build_info():
    info = tf_hsm.build_info()
    assert info["tf_hsm"] == tf_hsm.__version__
    assert re.fullmatch("[0-9a-f]{12}", info["build"])
    assert info["cpu_isa"] == tf_hsm.cpu_isa()
    for module in (keras, np, tf):
        name = "numpy" if module is np else module.__name__.split(".")[0]
        assert info[name] == module.__version__
    assert info["python"] == sys.version.split()[0]


def test_a_command_that_needs_the_package(tmp_path):
    """It is imported then, in silence, with what loads a head."""
    model = keras.Sequential(
        [keras.Input([8]), layers.HierarchicalSoftmax(Tree.two_level(30))]
    )
    model.save(tmp_path / "model.keras")
    result = run(tmp_path, "estimate", "--model=model.keras", "--batch=4")
    assert (result.returncode, result.stderr) == (0, "")
    assert "hierarchical_softmax" in result.stdout
