"""Checks that only tf_hsm/runtime/private_*.py uses private interfaces.

Private are `keras.src`, `tensorflow.python` and `tensorflow.core`; modules and
names of other packages that begin with an underscore; and attributes `x._name`
that the sources of the package do not define, on any `x`. A new version of
Keras or TensorFlow may change all of these without notice.

Tests may use private attributes. Among them, tests/support/private.py alone
imports private modules.
"""

import ast
import pathlib
import re
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_PACKAGES = ("tf_hsm", "examples", "benchmarks", "tests")
# Where private interfaces may be used.
_PRIVATE = ("tf_hsm/runtime/private_", "tests/support/private.py")
_ROOTS = r"keras\.src|(tensorflow|tf)\.(python|core)"
_MODULE = re.compile(rf"({_ROOTS})(\.\w+)*")
_DEFINITIONS = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef)
_ACCESS = ("delattr", "getattr", "hasattr", "setattr")
# Documented names that begin with an underscore, of tuples and of `os`.
_PUBLIC = {"_asdict", "_exit", "_fields", "_make", "_replace"}
# The beginning of names that the package gives to attributes of tensors.
_MARK = "_tf_hsm_"
# Names of attributes of Keras' and TensorFlow's objects, which are refused on
# all but `self` where our classes have attributes of the same names.
_THEIRS = {
    "_build_shapes_dict",
    "_built",
    "_call",
    "_config",
    "_dtype",
    "_functional",
    "_id",
    "_initializer",
    "_inputs",
    "_iterations",
    "_layers",
    "_learning_rate",
    "_losses",
    "_metrics",
    "_name",
    "_nodes",
    "_operations",
    "_optimizer",
    "_outputs",
    "_path",
    "_shape",
    "_spec",
    "_strategy",
    "_trainable_variables",
    "_value",
    "_values",
    "_variable",
    "_variables",
    "_weights",
}


def complaints(sources):
    """What is wrong with the sources of one package.

    Args:
      sources: a dict from paths within the workspace to texts.

    Returns:
      A list of strings "path:line: complaint".
    """
    trees = {
        path: ast.parse(text)
        for path, text in sources.items()
        if not path.startswith(_PRIVATE)
    }
    own = {pathlib.PurePath(path).stem for path in trees}
    own = own.union(*map(defined_names, trees.values()))
    found = []
    for path, tree in trees.items():
        if path.startswith("tests/"):
            uses = _private_imports(tree)
        else:
            uses = _private_uses(tree, own)
        found += [f"{path}:{line}: {what}" for line, what in sorted(set(uses))]
    return found


def _private_imports(tree):
    """Yields a line and a complaint for each import of a private module."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for module in filter(_MODULE.fullmatch, _modules(node)):
                yield node.lineno, f"imports {module}"


def defined_names(tree):
    """Yields the names that a module, its classes and its objects have."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            yield from _names_of_block(node)
        elif isinstance(node, ast.Attribute) and isinstance(
            node.ctx, ast.Store
        ):
            if _is_self(node.value):
                yield node.attr
        elif isinstance(node, ast.Subscript) and isinstance(
            node.ctx, ast.Store
        ):
            # self.__dict__["_name"] = ...
            is_dict = getattr(node.value, "attr", None) == "__dict__"
            if is_dict and isinstance(node.slice, ast.Constant):
                yield node.slice.value


def _names_of_block(block):
    """The names that the statements of a module or a class define."""
    for node in ast.iter_child_nodes(block):
        if isinstance(node, _DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        else:  # Assignments, `if`, `try`, `with`.
            yield from _names_of_block(node)


def _private_uses(tree, own):
    """Yields a line and a complaint for each private use in a module."""
    for node in ast.walk(tree):
        for module in _modules(node):
            if _is_private_module(module):
                yield node.lineno, f"uses {module}"
        for value, name in _accesses(node):
            if is_private(name) and not _is_ours(value, name, own):
                yield node.lineno, f"uses {ast.unparse(value)}.{name}"


def _modules(node):
    """The full names of modules that a node imports or names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Attribute):
        named = ast.unparse(node)
        # `keras.src.a.b` has one node that is `keras.src`.
        return [named] if re.fullmatch(_ROOTS, named) else []
    # A name for importlib or sys.modules.
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value] if _MODULE.fullmatch(node.value) else []
    return []


def _is_private_module(name):
    if _MODULE.fullmatch(name):
        return True
    first, *parts = name.split(".")
    return first not in _PACKAGES and any(
        is_private(part) and part not in _PUBLIC for part in [first, *parts]
    )


def _accesses(node):
    """The objects and names of the attributes that a node gets or sets."""
    if isinstance(node, ast.Attribute):
        return [(node.value, node.attr)]
    if isinstance(node, ast.Call) and len(node.args) > 1:
        value, name = node.args[0], getattr(node.args[1], "value", None)
        function = getattr(node.func, "id", None)
        if function in _ACCESS and isinstance(name, str):
            return [(value, name)]
    return []


def _is_ours(value, name, own):
    if name in _PUBLIC or name.startswith(_MARK):
        return True
    return name in own and (name not in _THEIRS or _is_self(value))


def is_private(name):
    """Whether a name begins with an underscore, but is not `__so__`."""
    is_dunder = name.startswith("__") and name.endswith("__")
    return name.startswith("_") and not is_dunder and name.strip("_") != ""


def _is_self(value):
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def complaints_below(root):
    """What is wrong with all sources below a folder, as `complaints` has it."""
    found = []
    for package in _PACKAGES:
        paths = sorted((root / package).glob("**/*.py"))
        found += complaints(
            {str(p.relative_to(root)): p.read_text() for p in paths}
        )
    return found


def main():
    """Prints every private use; returns the exit status."""
    bad = complaints_below(_ROOT)
    print("\n".join(bad) or "Private interfaces: only where they may be used.")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
