"""The head of `tf_hsm.estimate`, by name, as a tree or as a layer."""

from tf_hsm.estimation import heads
from tf_hsm.optimizers import in_place

_DEFAULT_HEAD = "hierarchical"


def read_optimizer(optimizer):
    """Returns the optimizer of a head that updates its own weights, or None."""
    if optimizer is None:
        return None
    try:
        return in_place.get(optimizer)
    except (TypeError, ValueError) as error:
        raise type(error)(f"head_optimizer: {error}") from error


def read(head, num_classes, options):
    """Returns a `Head`, or None where nothing names one."""
    if head is None and num_classes is not None:
        head = _DEFAULT_HEAD
    given = [
        "head_optimizer" if name == "optimizer" else name
        for name, value in options.items()
        if value is not None
    ]
    if head is None:
        if given:
            raise ValueError(f"{given[0]} is given, but no head that it is for")
        return None
    if isinstance(head, str):
        if num_classes is None:
            raise ValueError(
                f"head is {head!r}, which needs the number of its classes: "
                "give num_classes"
            )
        return heads.head(head, num_classes, **options)
    if isinstance(head, heads.Tree):
        found = heads.head(head, **options)
    elif given:
        raise ValueError(
            f"{given[0]} is for a head given by name or as a tree; this one is "
            f"{type(head).__name__}, which has its own"
        )
    else:
        found = heads.of(head)
    if num_classes not in (None, found.num_classes):
        raise ValueError(
            f"num_classes is {num_classes}, but head has {found.num_classes}"
        )
    return found
