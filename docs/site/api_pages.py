"""The API pages of the site: one for each public module, class and function.

The pages are reStructuredText that Sphinx' autodoc fills from the docstrings.
This module needs tf_hsm, but not Sphinx.
"""

import importlib
import inspect
import pathlib
import re
import types

_API = pathlib.Path(__file__).parents[2] / "tests" / "api.txt"
_ATTRIBUTES = re.compile(r"^Attributes:\n((?:  .*\n?|\n)+)", re.M)


def pages():
    """Returns the text of each page, by its name: `tf_hsm.Tree` for example."""
    texts = {}
    modules = [importlib.import_module("tf_hsm")]
    for module in modules:
        texts[module.__name__] = _module_page(module.__name__, module)
        for name in _public_names(module):
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                modules.append(value)
            else:
                full_name = f"{module.__name__}.{name}"
                texts[full_name] = _value_page(full_name, value)
    return texts


def missing(documented):
    """Returns the names in tests/api.txt that a set of names lacks."""
    # Members of base classes stand there under their base, without a module.
    lines = re.findall(r"^tf_hsm[\w.]*", _API.read_text(), re.M)
    return [name for name in lines if name not in documented]


def _public_names(module):
    """`__all__`; without one, the names that the module itself defines."""
    return getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
        and not name.startswith("_")
    ]


def _module_page(name, module):
    """A module's docstring, and its names with their first sentences."""
    lines = [*_heading(name), f".. automodule:: {name}", ""]
    for n in _public_names(module):
        lines += [f"`~{name}.{n}`", f"   {_summary(getattr(module, n))}", ""]
    lines += [".. toctree::", "   :hidden:", ""]
    lines += [f"   {n} <{name}.{n}>" for n in _public_names(module)]
    return "\n".join([*lines, ""])


def _value_page(name, value):
    """A class with its members, a function, or a dictionary."""
    lines = _heading(name.rpartition(".")[2])
    if isinstance(value, type):
        members = _members(value)
        lines += [f".. autoclass:: {name}", "   :undoc-members:"]
        if members:
            lines += [f"   :members: {', '.join(members)}"]
        if "__call__" in members:
            lines += ["   :special-members: __call__"]
    elif callable(value):
        lines += [f".. autofunction:: {name}"]
    else:
        lines += [f".. py:data:: {name}", "", f"   {_summary(value)}"]
    return "\n".join([*lines, ""])


def _summary(value):
    """The first line of a docstring; for a dictionary, its keys."""
    if isinstance(value, dict):
        return f"A dictionary with the keys {', '.join(map(repr, value))}."
    return inspect.getdoc(value).splitlines()[0]


def _members(cls):
    """Public names that a class has from the package, not from Keras.

    Attributes that the docstring of the class describes are left out.
    """
    found = _ATTRIBUTES.search(inspect.getdoc(cls) or "")
    described = re.findall(r"^  (\w+)", found[1], re.M) if found else []
    bases = [c for c in cls.__mro__ if c.__module__.startswith("tf_hsm")]
    names = {name for c in bases for name in vars(c)} - set(described)
    return sorted(n for n in names if n == "__call__" or n[0] != "_")


def _heading(title):
    return [title, "=" * len(title), ""]
