"""Numbers and tables as a person reads them."""

import itertools


def of_bytes(number):
    """Formats bytes in powers of 1,000: "1.20 GB", "34 MB"."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{three_digits(number / size)} {unit}"
    return f"{number:.0f} B"


def of_seconds(number):
    """Formats seconds in ms: "0.123", "12.3", "1,234"."""
    return three_digits(1000 * number)


def three_digits(number):
    """Formats a number: "0.123", "12.3", "1,234"."""
    decimals = sum(number < limit for limit in (1, 10, 100))
    return f"{number:,.{decimals}f}"


def aligned(rows):
    """Returns the lines of a table: the first column begins at the left.

    Args:
      rows: lists of texts; a row may lack the last columns.
    """
    columns = itertools.zip_longest(*rows, fillvalue="")
    first, *others = (max(map(len, column)) for column in columns)
    return [
        "  ".join(
            [row[0].ljust(first), *map(str.rjust, row[1:], others)]
        ).rstrip()
        for row in rows
    ]
