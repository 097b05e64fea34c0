"""The public names of the package, and what they take, as api.txt lists them.

A member stands there once, under the class of the package that defines it. The
line of a class names its bases of the package, whose members it has too.

After a change of the public interface that is meant:

    python tests/api_test.py > tests/api.txt
"""

import importlib
import inspect
import pathlib
import pkgutil
import sys
import textwrap

import keras
import pytest

import tf_hsm

MODULES = (
    "tf_hsm",
    "tf_hsm.baselines",
    "tf_hsm.callbacks",
    "tf_hsm.converters",
    "tf_hsm.datasets",
    "tf_hsm.decoding",
    "tf_hsm.distribute",
    "tf_hsm.estimation",
    "tf_hsm.layers",
    "tf_hsm.losses",
    "tf_hsm.metrics",
    "tf_hsm.optimizers",
    "tf_hsm.serving",
)
# Those whose other public methods are listed too.
CLASSES = (
    tf_hsm.CostModel,
    tf_hsm.ExpectedCost,
    tf_hsm.LabelCounts,
    tf_hsm.decoding.Sampler,
    tf_hsm.decoding.Trie,
    tf_hsm.distribute.Cluster,
    tf_hsm.distribute.Plan,
    tf_hsm.Forest,
    tf_hsm.SemanticIdEncoder,
    tf_hsm.Tree,
    tf_hsm.TreeHead,
    *(
        value
        for module in ("estimation", "layers", "losses", "metrics")
        for value in vars(getattr(tf_hsm, module)).values()
        if isinstance(value, type)
    ),
)
API = pathlib.Path(__file__).with_name("api.txt")


def public_names(module):
    """What `__all__` lists; without one, what is defined in the module."""
    return getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
        and not name.startswith("_")
    ]


def signature(function):
    """The arguments and their defaults, without types."""
    arguments = inspect.signature(function).parameters.values()
    bare = [a.replace(annotation=inspect.Parameter.empty) for a in arguments]
    return str(inspect.Signature(bare))


def lines_of(name, value):
    """A line for a public name; for a class of CLASSES, more."""
    is_error = isinstance(value, type) and issubclass(value, Exception)
    if not callable(value) or is_error:
        return [name]
    line = name + signature(value)
    return lines_of_class(name, value, line) if value in CLASSES else [line]


def lines_of_class(name, cls, line):
    """`line` with the bases of a class, its own public members, and theirs."""
    bases = [b for b in cls.__bases__ if b.__module__.startswith("tf_hsm")]
    if bases:
        line += " : " + ", ".join(base.__name__ for base in bases)
    lines = [line]
    for member in vars(cls):
        if not member.startswith("_"):
            lines += lines_of(f"{name}.{member}", getattr(cls, member))
    for base in bases:
        lines += lines_of_class(base.__name__, base, base.__name__)
    return lines


def public_api():
    """One line per public name, in order."""
    lines = set()
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in public_names(module):
            value = getattr(module, name)
            lines.update(lines_of(f"{module_name}.{name}", value))
    return "\n".join(
        textwrap.fill(
            line, 80, subsequent_indent="    ", break_long_words=False
        )
        for line in sorted(lines)
    )


@pytest.mark.skipif(
    keras.__version__ < "3.15", reason="optimizers inherit other defaults"
)
def test_public_api():
    """What this test finds, users find too: CHANGELOG.md tells them."""
    assert public_api() == API.read_text().strip()


def test_no_name_hides_a_module():
    """What `import tf_hsm.x.y` imports is the attribute y of `tf_hsm.x`."""
    found = [
        info.name
        for info in pkgutil.walk_packages(tf_hsm.__path__, "tf_hsm.")
        if info.name not in ("tf_hsm.__main__", "tf_hsm._tf_hsm_ops")
    ]
    assert "tf_hsm.distribute.cut_plan" in found
    for name in found:
        module = importlib.import_module(name)
        package, _, last = name.rpartition(".")
        assert getattr(sys.modules[package], last) is module, name


if __name__ == "__main__":
    print(public_api())
