"""Numbers as a person reads and writes them."""

import numbers
import re

_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_AMOUNT = re.compile(r"([\d_,]*\.?\d+)\s*([kKMGT]i?)?(B)?")


def digits(number):
    """Returns a number with three digits, or all before the point."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def short(number):
    """Returns 1234567 as "1.23 M", for a unit to follow."""
    for prefix, size in reversed(_PREFIXES.items()):
        if number >= size:
            return f"{number / size:.3g} {prefix}"
    return f"{number:.3g} "


def of_bytes(number):
    """Returns 1234567 as "1.23 MB"."""
    for prefix, size in reversed(_PREFIXES.items()):
        if number >= size:
            return f"{digits(number / size)} {prefix}B"
    return f"{number:.0f} B"


def read_amount(name, value, unit=""):
    """Reads a positive number such as 10000000, "10M", "24GB" or "1.5 GiB".

    Args:
      name: what it is, for the error message.
      value: an int, a float or a str.
      unit: "B" if a str may end so; else "".

    Raises:
      ValueError: it is something else.
    """
    number = None
    if isinstance(value, str):
        found = _AMOUNT.fullmatch(value.strip())
        if found and (unit or not found[3]):
            prefix = found[2] or ""
            prefix = "k" if prefix == "K" else prefix.replace("ki", "Ki")
            size = {"": 1, **_PREFIXES, **_BINARY}[prefix]
            number = float(re.sub("[_,]", "", found[1])) * size
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
    if number is None or not 0 < number < 1e18:
        example = "24GB" if unit else "10M"
        raise ValueError(
            f"{name} is {value!r}; it must be a positive number below 1e18, "
            f"such as {example}"
        )
    return number


def table(rows):
    """Returns lines: a head, and the values of each dict, in columns.

    The first column begins at the left, as does "kind"; the others end at the
    right.
    """
    rows = list(rows)
    names = list(rows[0])
    lines = [dict(zip(names, names, strict=True)), *rows]
    width = {name: max(len(line[name]) for line in lines) for name in names}
    left = {names[0], "kind"}
    return [
        "  ".join(
            f"{line[name]:{'<' if name in left else '>'}{width[name]}}"
            for name in names
        ).rstrip()
        for line in lines
    ]
