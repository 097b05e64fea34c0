"""The pages that the documentation site makes, which need no Sphinx."""

import base64
import json
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


def test_a_notebook_page_has_text_code_outputs_and_pictures(tmp_path):
    picture = {"image/png": base64.b64encode(b"PNG").decode()}
    outputs = [
        {"output_type": "stream", "text": ["4\n"]},
        {"output_type": "display_data", "data": picture},
    ]
    code = {"cell_type": "code", "source": ["print(4)"], "outputs": outputs}
    text = {"cell_type": "markdown", "source": ["# Title\n", "Text"]}
    notebook = json.dumps({"cells": [text, code]})
    (tmp_path / "numbers.ipynb").write_text(notebook)
    pages = runpy.run_path("docs/site/notebook_pages.py")
    pages["write_pages"](tmp_path, tmp_path / "pages")
    assert (tmp_path / "pages" / "numbers.md").read_text() == (
        "# Title\nText\n\n```python\nprint(4)\n```\n\n```text\n4\n```\n\n"
        "![Output of the cell](numbers-1.png)\n"
    )
    assert (tmp_path / "pages" / "numbers-1.png").read_bytes() == b"PNG"


def test_without_sphinx_the_build_says_how_to_install_it(tmp_path):
    build = subprocess.run(
        ["docs/site/build.sh", str(tmp_path)],
        env={"PATH": "/usr/bin:/bin", "PYTHON": "false"},
        capture_output=True,
        text=True,
    )
    assert build.returncode == 1
    assert "pip install -r docs/site/requirements.txt" in build.stderr
