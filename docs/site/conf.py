"""Sphinx' configuration; docs/site/build.sh builds the site.

The source folder is an empty folder, outside the repository. Sphinx fills it with
copies of the documents, in the folders where the repository has them, so that
their links hold, and with the API pages.
"""

import os
import pathlib
import re
import shutil
import sys
import tomllib

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import api_pages

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_FILES = (
    "*.md",
    "benchmarks/*.md",
    "docs/*.md",
    "docs/**/*.svg",
    "examples/*/*.md",
    "tests/*.md",
)
# A line, and an empty line before lines with four more spaces.
_CODE = re.compile(r"^( *)(\S.*(?<!::))\n\n(?=\1    +\S)", re.M)
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
_REPOSITORY = _PROJECT.get("urls", {}).get("Repository")

project = _PROJECT["name"]
release = _PROJECT["version"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
# The text of README.md is the front page.
exclude_patterns = ["README.md"]
# `name` in a docstring links to the page of that name, if there is one.
default_role = "py:obj"
myst_heading_anchors = 6
autodoc_inherit_docstrings = False
autodoc_member_order = "alphabetical"
python_maximum_signature_line_length = 80
html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False


def setup(app):
    """Registers the functions below with Sphinx."""
    app.connect("builder-inited", _fill_source_folder)
    app.connect("doctree-read", _resolve_links)
    # Before napoleon, which changes indents.
    app.connect("autodoc-process-docstring", _mark_code, priority=400)
    app.connect("env-updated", _check_api)


def _fill_source_folder(app):
    """Copies the documents and writes the API pages."""
    source = pathlib.Path(app.srcdir)
    for pattern in _FILES:
        for path in _ROOT.glob(pattern):
            copy = source / path.relative_to(_ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    shutil.copyfile(_ROOT / "docs" / "site" / "index.md", source / "index.md")
    (source / "api").mkdir(exist_ok=True)
    for name, text in api_pages.pages().items():
        (source / "api" / f"{name}.rst").write_text(text)


def _resolve_links(app, doctree):
    """Resolves links from a document to files that have no page.

    A link goes to the file in the repository, if pyproject.toml has its URL, and
    is plain text otherwise. A link to a missing file stays, for a warning.
    """
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node["reftype"] != "myst":
            continue
        if node["reftarget"] == "README":
            node["reftarget"] = "index"
        folder = os.path.dirname(node["refdoc"])
        path = os.path.normpath(os.path.join(folder, node["reftarget"]))
        if node["refdomain"] != "doc" and (_ROOT / path).exists():
            text = node.children
            if _REPOSITORY:
                uri = f"{_REPOSITORY}/blob/HEAD/{path}"
                text = [nodes.reference("", "", *text, refuri=uri)]
            node.replace_self(text)


def _mark_code(app, what, name, obj, options, lines):
    """Marks the indented blocks of a docstring as code, as Markdown has them."""
    text = _CODE.sub(r"\1\2\n\n\1::\n\n", "\n".join(lines))
    lines[:] = text.split("\n")


def _check_api(app, env):
    """Warns of public names without an entry: the build then fails."""
    documented = {name for name, *_ in env.get_domain("py").get_objects()}
    for name in api_pages.missing(documented):
        logging.getLogger(__name__).warning("%s has no API page", name)
