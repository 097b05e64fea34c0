"""`tf_hsm.estimation.largest`: the inverse of `estimate`."""

from tf_hsm._units import of_bytes, read_amount
from tf_hsm.estimation.api import estimate
from tf_hsm.estimation.body.made import match_text, width_unit

_MOST = 2**40
_WHAT = ("batch", "length", "width", "num_classes")


def largest(body=None, head=None, *, memory, what="batch", **arguments):
    """Returns the largest batch, length, width or N whose training fits.

    >>> tf_hsm.estimation.largest(
    ...     "lstm:2x2048", num_classes="10M", length=100, memory="24GB",
    ...     head_optimizer="rowwise_adagrad")

    Args:
      body: as for `estimate`. For another width: None, or a text such as
        "lstm:2x2048", all layers of which get it.
      head: as for `estimate`, but one. For another number of classes: None, or
        the name of a head.
      memory: bytes, or a text such as "24GB".
      what: "batch", "length", "width" or "num_classes".
      **arguments: as for `estimate`, without the one that is looked for.

    Returns:
      An int.

    Raises:
      TypeError: an argument is of a type that is not listed.
      ValueError: an argument is out of its range; or even 1 does not fit.
    """
    return find(body, head, memory, what, arguments)[0]


def find(body, head, memory, what, arguments):
    """Returns what `largest` does, and the `Estimate` for it."""
    _check(body, head, what, arguments)
    memory = read_amount("memory", memory, "B")
    # Without a batch it is 1, which `make` replaces to find the largest batch.
    arguments = {"batch": 1, **arguments, "memory": memory}
    text, unit = None, 1
    if what == "width" and body is not None:
        text = match_text(body)
        unit = width_unit(text)  # attention heads share the width out evenly

    def make(value):
        if text is None:
            return estimate(body, head, **{**arguments, what: value})
        begin, end = text.span("width")
        wider = f"{body[:begin]}{value * unit}{body[end:]}"
        return estimate(wider, head, **arguments)

    def fits(value):
        return make(value).fits

    if not fits(1):
        found = make(1)
        raise ValueError(
            f"not even 1 fits: {found.name} needs "
            f"{of_bytes(found.memory - found.spare_bytes)} then, and memory is "
            f"{of_bytes(found.memory)}"
        )
    value = _search(fits, 1)
    # Where less is kept in a larger step, more than the first limit may fit.
    while fits(value + value // 10 + 1):
        value = _search(fits, value + value // 10 + 1)
    return value * unit, make(value)


def _check(body, head, what, arguments):
    if what not in _WHAT:
        raise ValueError(
            f"what is {what!r}; it must be one of {', '.join(_WHAT)}"
        )
    if arguments.get(what) is not None:
        raise ValueError(
            f"{what} is {arguments[what]!r}, but is what is looked for"
        )
    if isinstance(head, list | tuple):
        raise ValueError("head is a list; one head has a largest " + what)
    if what == "length" and getattr(body, "length", None) is not None:
        raise ValueError(f"the length of the body is {body.length} already")
    if what == "width" and not isinstance(body, str | None):
        raise ValueError(
            f"the width of a {type(body).__name__} cannot be changed; give the "
            'body as text, such as "lstm:2x2048", or None'
        )
    if what == "num_classes" and not isinstance(head, str | None):
        raise ValueError(
            f"the classes of a {type(head).__name__} cannot be changed; give "
            'head as a name, such as "hierarchical"'
        )


def _search(fits, low):
    """Returns a value from `low` on that fits, while the next one does not."""
    high = 2 * low
    while fits(high):
        low, high = high, 2 * high
        if high > _MOST:
            raise ValueError(
                f"there is no largest: {low:,} still fits into the memory"
            )
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
