"""The wheel installs, and works from where it was installed."""

import email
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import typing
import zipfile

import pytest

import tf_hsm

_COMPUTE = """
import numpy as np
import tf_hsm

tree = tf_hsm.Tree.balanced(4, 2)
loss = tf_hsm.hierarchical_softmax_loss(
    np.zeros([tree.num_rows, 3], np.float32),
    None,
    np.arange(4),
    np.ones([4, 3], np.float32),
    tree,
)
np.testing.assert_allclose(loss, np.full(4, np.log(4)), rtol=1e-6)
print(tf_hsm.__file__)
print(tf_hsm.build_info()["build"])
"""


@pytest.fixture(scope="module")
def wheel():
    (path,) = pathlib.Path().glob("*.whl")
    return path


def _metadata(wheel, name):
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [x for x in archive.namelist() if x.endswith(name)]
        return email.message_from_bytes(archive.read(path))


def test_the_tag_names_the_platform_and_no_python(wheel):
    tag = f"py3-none-linux_{platform.machine()}"
    assert wheel.stem.endswith(tag)
    metadata = _metadata(wheel, ".dist-info/WHEEL")
    assert metadata["Tag"] == tag
    assert metadata["Root-Is-Purelib"] == "false"


def test_auditwheel_finds_its_tag_and_one_library_of_another_package(wheel):
    """TensorFlow brings the library; nothing else bars a manylinux tag."""
    report = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", "--json", wheel],
        check=True,
        stdout=subprocess.PIPE,
    )
    found = json.loads(report.stdout)
    assert wheel.stem.endswith("-" + found["overall_tag"])
    assert [*found["external_libs"]] == ["libtensorflow_framework.so.2"]
    assert found["sym_tag"].startswith("manylinux_2_")
    assert not found["unsupported_isa"]


def test_it_requires_one_minor_version_of_tensorflow(wheel):
    metadata = _metadata(wheel, ".dist-info/METADATA")
    assert "tensorflow<2.22,>=2.21" in metadata.get_all("Requires-Dist")


def test_it_says_what_it_is(wheel):
    metadata = _metadata(wheel, ".dist-info/METADATA")
    assert metadata["Name"] == "tf_hsm"
    assert metadata["Version"] == tf_hsm.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Author"] == "The tf_hsm authors"
    assert metadata.get_all("Provides-Extra") == ["plot", "test"]
    assert metadata["Requires-Python"] == ">=3.10"
    classifiers = metadata.get_all("Classifier")
    assert "Operating System :: POSIX :: Linux" in classifiers
    assert "Programming Language :: Python :: 3.11" in classifiers


def test_type_checkers_read_its_annotations(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert "tf_hsm/py.typed" in archive.namelist()
    hints = typing.get_type_hints(tf_hsm.hierarchical_softmax_loss)
    assert hints["tree"] == tf_hsm.Tree | tf_hsm.Forest


def test_its_description_stands_alone(wheel):
    """It is the README, without links into the repository."""
    metadata = _metadata(wheel, ".dist-info/METADATA")
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload(decode=True).decode()
    assert text.startswith("# tf_hsm\n")
    assert "```python\nimport keras" in text
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert [link for link in links if not link.startswith("https:")] == []
    assert "docs/performance.md more workloads" in text


def test_it_computes_where_it_is_installed(wheel, tmp_path):
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    options = ["--no-deps", "--no-index", "--target", tmp_path]
    subprocess.run([*pip, *options, wheel.resolve()], check=True)
    result = subprocess.run(
        [sys.executable, "-c", _COMPUTE],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    file, build = result.stdout.splitlines()
    assert pathlib.Path(file).is_relative_to(tmp_path)
    # A wheel has the files of the tree that it was built of.
    assert build == tf_hsm.build_info()["build"]
