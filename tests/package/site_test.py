"""The API pages of the documentation site, which need no Sphinx."""

import pydoc
import re
import runpy
import subprocess

import pytest


@pytest.fixture(scope="module")
def api_pages():
    return runpy.run_path("docs/site/api_pages.py")


def test_every_public_name_is_on_a_page(api_pages):
    pages = api_pages["pages"]()
    members = {
        f"{page}.{member}"
        for page, text in pages.items()
        for names in re.findall(r":members: (.*)", text)
        for member in names.split(", ")
    }
    for name in api_pages["missing"](members | pages.keys()):
        # The docstring of the class describes the attribute.
        cls, _, attribute = name.rpartition(".")
        line = rf"^ +{attribute}( \(.*\))?: "
        assert re.search(line, pydoc.locate(cls).__doc__, re.M), name


def test_a_name_without_an_entry_is_missing(api_pages):
    names = api_pages["missing"](set())
    assert {"tf_hsm.Tree", "tf_hsm.layers", "tf_hsm.Tree.pin"} <= {*names}
    assert not api_pages["missing"]({*names})
    assert api_pages["missing"]({*names} - {"tf_hsm.Tree.pin"}) == [
        "tf_hsm.Tree.pin"
    ]


def test_without_sphinx_the_build_says_how_to_install_it(tmp_path):
    build = subprocess.run(
        ["docs/site/build.sh", str(tmp_path)],
        env={"PATH": "/usr/bin:/bin", "PYTHON": "false"},
        capture_output=True,
        text=True,
    )
    assert build.returncode == 1
    assert "pip install -r docs/site/requirements.txt" in build.stderr
