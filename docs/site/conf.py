"""Sphinx' configuration; docs/site/build.sh builds the site.

The source folder has copies of the documents in the same folders as in the
repository, so that their links work. The functions below add the API pages and
the pages of the notebooks.
"""

import inspect
import os
import pathlib
import re
import sys

import tomllib
from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import api_pages
import notebook_pages

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# A line and an empty line, before a line with at least four more spaces.
_BLOCK = re.compile(r"^( *)(\S.*(?<!::))\n\n(?=\1    +\S)", re.M)
_BACKQUOTED = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
_REPOSITORY = _PROJECT.get("urls", {}).get("Repository")

project = _PROJECT["name"]
release = _PROJECT["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# The text of README.md is the front page.
exclude_patterns = ["README.md"]
# `name` in a docstring links to the page of that name, if there is one.
default_role = "py:obj"
highlight_language = "text"
myst_heading_anchors = 6
autodoc_inherit_docstrings = False
python_maximum_signature_line_length = 80
html_theme = "furo"
html_title = f"{project} {release}"
html_copy_source = False


def setup(app):
    """Registers the functions below with Sphinx."""
    app.connect("builder-inited", _write_api_pages)
    app.connect("builder-inited", _write_notebook_pages)
    app.connect("doctree-read", _resolve_links)
    # Before napoleon, which changes indents.
    app.connect("autodoc-process-docstring", _from_markdown, priority=400)
    app.connect("autodoc-process-signature", _signature)
    app.connect("env-updated", _check_api)


def _write_api_pages(app):
    folder = pathlib.Path(app.srcdir, "api")
    folder.mkdir(exist_ok=True)
    for name, text in api_pages.pages().items():
        (folder / f"{name}.rst").write_text(text)


def _write_notebook_pages(app):
    folder = pathlib.Path("docs", "notebooks")
    notebook_pages.write_pages(_ROOT / folder, app.srcdir / folder)


def _resolve_links(app, doctree):
    """Resolves links from a document to notebooks, and to files without a page.

    If pyproject.toml has the URL of the repository, a link goes to the file
    there; otherwise it becomes plain text. Sphinx warns of missing files.
    """
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node["reftype"] != "myst":
            continue
        if node["reftarget"] == "README":
            node["reftarget"] = "index"
        folder = os.path.dirname(node["refdoc"])
        path = os.path.normpath(os.path.join(folder, node["reftarget"]))
        if path.endswith(".ipynb"):
            page = path.removesuffix(".ipynb")
            node["refdomain"], node["reftarget"] = "doc", page
            node["reftargetid"] = None
        elif node["refdomain"] != "doc" and (_ROOT / path).exists():
            text = node.children
            if _REPOSITORY:
                uri = f"{_REPOSITORY}/blob/HEAD/{path}"
                text = [nodes.reference("", "", *text, refuri=uri)]
            node.replace_self(text)


def _from_markdown(app, what, name, obj, options, lines):
    """Turns Markdown's code in a docstring into code of reStructuredText.

    Indented blocks get a `::`. Text in backquotes gets a second pair of them,
    unless it is a name: `default_role` links names.
    """
    text = _BLOCK.sub(r"\1\2\n\n\1::\n\n", "\n".join(lines))
    text = _BACKQUOTED.sub(
        lambda m: m[0] if re.fullmatch(r"[\w.]+", m[1]) else f"`{m[0]}`", text
    )
    lines[:] = text.split("\n")


def _signature(app, what, name, obj, options, signature, returns):
    """Corrects a constructor's arguments where autodoc takes `__new__`'s."""
    if what == "class" and signature == "(*args, **kwargs)":
        return str(inspect.signature(obj)), returns
    return None


def _check_api(app, env):
    """Warns of each public name without an entry; a warning fails the build."""
    documented = {name for name, *_ in env.get_domain("py").get_objects()}
    for name in api_pages.missing(documented):
        logging.getLogger(__name__).warning("%s has no API page", name)
