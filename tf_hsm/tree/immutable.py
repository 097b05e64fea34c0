"""A base class of objects that cannot change."""


class Immutable:
    """Refuses assignment; a copy of the object is the object itself.

    A constructor writes attributes to `self.__dict__`.
    """

    def __setattr__(self, name, value):
        """Refuses: the object is immutable."""
        raise AttributeError(
            f"a {type(self).__name__} is immutable; cannot set {name!r}"
        )

    def __delattr__(self, name):
        """Refuses: the object is immutable."""
        raise AttributeError(
            f"a {type(self).__name__} is immutable; cannot delete {name!r}"
        )

    def __copy__(self):
        """Returns the object itself, as it cannot change."""
        return self

    def __deepcopy__(self, memo):
        """Returns the object itself, as it cannot change."""
        return self
