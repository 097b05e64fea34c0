"""Where the package uses private interfaces (bazel/check_private.py)."""

import ast
import functools
import importlib
import inspect
import pkgutil
import textwrap

import keras
import pytest

import tf_hsm
from bazel import check_private

PRIVATE_USES = {
    "import keras.src": "uses keras.src",
    "import keras.src.backend as b": "uses keras.src.backend",
    "from keras.src import backend": "uses keras.src.backend",
    "from keras import src": "uses keras.src",
    "keras.src.backend.rnn(1)": "uses keras.src",
    "from tensorflow.python.eager import tape": (
        "uses tensorflow.python.eager.tape"
    ),
    "from tensorflow.core import framework": "uses tensorflow.core.framework",
    "tf.python.ops.add": "uses tf.python",
    "import_module('keras.src.layers')": "uses keras.src.layers",
    "from numpy._core import a": "uses numpy._core.a",
    "from numpy import _core": "uses numpy._core",
    "import _thread": "uses _thread",
    "def f():\n    import keras.src": "uses keras.src",
    "model._flatten_layers()": "uses model._flatten_layers",
    "a.b[0]._tracker.c = 1": "uses a.b[0]._tracker",
    "del model._tracker": "uses model._tracker",
    "getattr(model, '_tracker', None)": "uses model._tracker",
    "hasattr(model, '_tracker')": "uses model._tracker",
    "setattr(model, '_tracker', 1)": "uses model._tracker",
    "super()._clip_gradients(1)": "uses super()._clip_gradients",
    # An attribute that a base class of Keras has.
    "class A(B):\n    def f(self):\n        self._tracker.f()": (
        "uses self._tracker"
    ),
    # A name that is set on another's object is no definition.
    "model._tracker = 1": "uses model._tracker",
    "def f():\n    _tracker = 1\n    model._tracker": "uses model._tracker",
    # A name that our class and Keras' have.
    "class A:\n    _value = 1\nvariable._value": "uses variable._value",
}
OWN_USES = [
    "from tf_hsm import _checks\nfrom . import _names",
    "from __future__ import annotations\nx.__dict__['a']",
    "class A:\n    def __init__(self):\n        self._tracker = 1\nx._tracker",
    "class A:\n    def _tracker(self):\n        pass\nx._tracker()",
    "class A:\n    _tracker: int\nx._tracker",
    "class A:\n    def f(self):\n        self.__dict__['_tracker'] = 1\n"
    "getattr(x, '_tracker')",
    "if a:\n    _tracker = 1\nx._tracker",
    "class A:\n    _value = 1\n    def f(self):\n        self._value",
    "x._replace(a=1)._asdict()\nos._exit(1)",
    "outputs._tf_hsm_head = 1",
    "getattr(x, name)\ngetattr(x, 'name')\n_, y = z",
]


def complaints(source, path="tf_hsm/new.py", **others):
    """The complaints about a source, without path and line."""
    sources = {f"tf_hsm/{name}.py": text for name, text in others.items()}
    found = check_private.complaints({path: source, **sources})
    return [line.split(": ", 1)[1] for line in found]


@pytest.mark.parametrize("source", PRIVATE_USES)
def test_private_uses_are_found(source):
    assert complaints(source) == [PRIVATE_USES[source]]
    assert complaints(source, "tf_hsm/runtime/private_new.py") == []


@pytest.mark.parametrize("source", OWN_USES)
def test_uses_of_own_names_pass(source):
    assert complaints(source) == []


def test_another_module_of_the_package_may_define_a_name():
    source = "tree._tracker"
    assert complaints(source, tree="class T:\n    _tracker = 1") == []
    # Private modules define names for themselves.
    found = complaints(source, **{"runtime/private_a": "_tracker = 1"})
    assert found == ["uses tree._tracker"]


def test_tests_may_use_attributes_and_one_module_may_import():
    source = "from keras.src import ops\nmodel._tracker\nnames = ['keras.src']"
    assert complaints(source, "tests/a_test.py") == ["imports keras.src.ops"]
    assert complaints(source, "tests/support/private.py") == []


def test_every_folder_is_read(tmp_path):
    for folder in ("tf_hsm/a/b", "examples/c", "benchmarks/d", "tests/e"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "new.py").write_text("\nimport keras.src\n")
    assert check_private.complaints_below(tmp_path) == [
        "tf_hsm/a/b/new.py:2: uses keras.src",
        "examples/c/new.py:2: uses keras.src",
        "benchmarks/d/new.py:2: uses keras.src",
        "tests/e/new.py:2: imports keras.src",
    ]


@functools.cache
def private_names(kind):
    """The private names that the source of a class defines."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # A class without a source in Python.
        return set()
    names = check_private.defined_names(ast.parse(source))
    return set(filter(check_private.is_private, names))


def overrides(kind, package="tf_hsm."):
    """The private names of other packages that classes of ours redefine."""
    bases = kind.mro()
    ours = [base for base in bases if base.__module__.startswith(package)]
    theirs = set().union(*(private_names(b) for b in bases if b not in ours))
    return {
        (base.__name__, name)
        for base in ours
        if not base.__module__.startswith("tf_hsm.runtime.private_")
        for name in private_names(base) & theirs
    }


def test_no_class_overrides_a_private_name():
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(tf_hsm.__path__, "tf_hsm.")
        if not module.name.endswith(("__main__", "_tf_hsm_ops"))
    ]
    kinds = {
        kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__.startswith("tf_hsm.")
    }
    assert tf_hsm.optimizers.LazyAdam in kinds
    assert set().union(*map(overrides, kinds)) == set()


def test_overrides_are_found():
    class Layer(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self._losses = []

        def _flatten_layers(self):
            return []

        def _own(self):
            return []

    assert overrides(Layer, __name__) == {
        ("Layer", "_losses"),
        ("Layer", "_flatten_layers"),
    }
