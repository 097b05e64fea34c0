"""Checks of flags with several numbers, and of flags that belong together."""

import itertools

from examples.common.settings import text as as_flag


def numbers(name, value):
    """Returns the numbers in the value of a flag as a tuple.

    Args:
        name: that of the flag.
        value: a number, a text such as "512,256", or several of these.

    Raises:
        ValueError: something is no whole number, or below 1.
    """
    given = as_flag(value)
    try:
        found = tuple(int(part) for part in given.split(",") if given)
    except ValueError:
        raise ValueError(
            f"--{name}={given}: must be a whole number, or several with "
            "commas, as in 512,256."
        ) from None
    if any(number < 1 for number in found):
        raise ValueError(f"--{name}={given}: must be at least 1.")
    return found


def widths(units, layers):
    """Returns the width of each layer.

    Args:
        units: a tuple of the widths, or of one for all layers.
        layers: how many, or None for as many as `units` has.

    Raises:
        ValueError: there is none, or the two contradict each other.
    """
    if not units:
        raise ValueError("--units=: must have a number.")
    if layers is None:
        return units
    if layers < 1:
        raise ValueError(f"--layers={layers}: must be at least 1.")
    if len(units) > 1 and len(units) != layers:
        raise ValueError(
            f"--layers={layers}: but --units={as_flag(units)} are {len(units)} "
            "layers; leave out --layers, or give one width."
        )
    return units if len(units) > 1 else units * layers


def check_together(settings):
    """Checks the flags of a `settings.Settings` that belong together.

    Raises:
        ValueError: names the first ones that contradict each other.
    """
    if any(a >= b for a, b in itertools.pairwise(settings.cutoffs or ())):
        raise ValueError(f"--cutoffs={as_flag(settings.cutoffs)}: must ascend.")
    if settings.body == "transformer":
        _check_transformer(settings)
    if settings.tied:
        _check_tied(settings)
    if settings.in_place:
        _check_in_place(settings)


def _check_transformer(settings):
    width, *others = settings.units
    if set(others) - {width}:
        raise ValueError(
            f"--units={as_flag(settings.units)}: all blocks of "
            "--body=transformer have one width; give that, and their number "
            "as --layers."
        )
    if width % settings.attention_heads:
        raise ValueError(
            f"--attention_heads={settings.attention_heads}: must divide "
            f"--units={width}."
        )


def _check_tied(settings):
    is_flat = settings.head == "hierarchical" and settings.tree == "flat"
    if settings.head != "adaptive" and not is_flat:
        raise ValueError(
            f"--tied: the rows of --head={settings.head} are no input "
            "embedding: in a tree they tell a class from its siblings alone, "
            "and the other softmaxes are here to compare with. Take "
            "--head=adaptive or --tree=flat, or leave it out."
        )
    if is_flat and (settings.in_place or settings.l2):
        raise ValueError(
            "--tied: with --tree=flat, the rows have one gradient for both "
            "uses; leave out --in_place and --l2."
        )
    if settings.embedding not in (None, settings.head_width):
        raise ValueError(
            f"--embedding={settings.embedding}: with --tied it is as wide as "
            f"the head's inputs, {settings.head_width}; leave it out."
        )


def _check_in_place(settings):
    reasons = {
        f"--head={settings.head}": (
            settings.head not in ("hierarchical", "adaptive"),
            "has no update in place, --head=hierarchical and adaptive have",
        ),
        f"--clipnorm={settings.clipnorm:g}": (
            settings.clipnorm,
            "needs the gradient of all weights, which is never stored",
        ),
        f"--l2={settings.l2:g}": (
            settings.l2,
            "needs the gradient of a penalty, of which that step knows nothing",
        ),
    }
    for flag, (is_wrong, reason) in reasons.items():
        if is_wrong:
            raise ValueError(
                f"--in_place: {flag} {reason}; leave out one of the two."
            )
