"""The list of all builders: class methods of `Tree`, kinds of command line."""

import functools
import inspect
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

from tf_hsm.tree.builders.adaptive import ADAPTIVE, adaptive
from tf_hsm.tree.builders.balanced import (
    BALANCED,
    FLAT,
    TWO_LEVEL,
    balanced,
    flat,
    two_level,
)
from tf_hsm.tree.builders.data import DATA, from_data
from tf_hsm.tree.builders.embeddings import EMBEDDINGS, from_embeddings
from tf_hsm.tree.builders.huffman import HUFFMAN, from_counts, huffman
from tf_hsm.tree.builders.nested import from_nested
from tf_hsm.tree.builders.nodes import from_parents
from tf_hsm.tree.builders.paths import PATHS, from_paths

_Arguments = ParamSpec("_Arguments")
_Tree = TypeVar("_Tree")


class Constructor(classmethod, Generic[_Arguments]):
    """A class method that calls its class with what a builder returns.

    It has the name, the arguments and the docstring of the builder.
    """

    def __init__(self, build: Callable[_Arguments, tuple]):
        """Takes the builder, a function."""

        @functools.wraps(build)
        def construct(cls, *args, **kwargs):
            return cls._of(*build(*args, **kwargs))

        construct.__qualname__ = f"Tree.{build.__name__}"
        signature = inspect.signature(build)
        cls = inspect.Parameter("cls", inspect.Parameter.POSITIONAL_ONLY)
        construct.__signature__ = signature.replace(
            parameters=[cls, *signature.parameters.values()]
        )
        super().__init__(construct)

    def __get__(
        self, instance, owner: type[_Tree]
    ) -> Callable[_Arguments, _Tree]:
        """Binds the method to a class, for editors in this type."""
        return super().__get__(instance, owner)


class TreeConstructors:
    """The class methods by which `Tree` is built: it inherits them."""

    balanced = Constructor(balanced)
    two_level = Constructor(two_level)
    flat = Constructor(flat)
    huffman = Constructor(huffman)
    from_counts = Constructor(from_counts)
    from_data = Constructor(from_data)
    adaptive = Constructor(adaptive)
    from_embeddings = Constructor(from_embeddings)
    from_parents = Constructor(from_parents)
    from_paths = Constructor(from_paths)
    from_nested = Constructor(from_nested)


# By name, in the order of the help text.
KINDS = {
    kind.name: kind
    for kind in (
        TWO_LEVEL,
        BALANCED,
        FLAT,
        HUFFMAN,
        ADAPTIVE,
        DATA,
        EMBEDDINGS,
        PATHS,
    )
}
