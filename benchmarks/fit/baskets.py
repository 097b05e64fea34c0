"""Task: a package that another one depends on, by the others it depends on."""

import collections
import pathlib
import re
import subprocess
import zlib

import numpy as np

_LISTS = pathlib.Path("/var/lib/apt/lists")
_LENGTH = 8  # other items of a basket
_HELD_OUT_EVERY = 20  # source packages
_MIN_COUNT = 2


def dependencies():
    """The dependencies of all packages that apt knows.

    Binary packages of one source package are alike. They are either all held
    out or all in the training part.

    Raises:
      OSError: apt has no index.
    """
    training, held_out = [], []
    for source, basket in baskets(_indexes()):
        is_held_out = zlib.crc32(source.encode()) % _HELD_OUT_EVERY == 0
        (held_out if is_held_out else training).append(basket)
    counts = collections.Counter(item for b in training for item in b)
    ids = {item for item, count in counts.items() if count >= _MIN_COUNT}
    ids = {item: i for i, item in enumerate(sorted(ids))}
    rng = np.random.default_rng(0)
    return {
        "training": examples(training, ids, rng),
        "held_out": examples(held_out, ids, rng),
        "num_classes": len(ids),
        "is_bag": True,
    }


def _indexes():
    """Returns the text of the Packages indexes that `apt-get update` stores."""
    paths = sorted(_LISTS.glob("*Packages*"))
    if not paths:
        raise OSError(
            f"{_LISTS} has no Packages index: run apt-get update as root, or "
            "leave packages out of --tasks."
        )
    command = ["/usr/lib/apt/apt-helper", "cat-file", *map(str, paths)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout


def baskets(text):
    """Yields the source and the dependencies of each package of an index.

    Only the first of several alternatives and of several versions counts.
    """
    seen = set()
    for paragraph in text.split("\n\n"):
        fields = dict(re.findall(r"^(\w+): (.*)$", paragraph, re.M))
        name = fields.get("Package")
        if name in seen or "Depends" not in fields:
            continue
        seen.add(name)
        items = re.findall(r"(?:^|,)\s*([^\s,|:(]+)", fields["Depends"])
        source = fields.get("Source", name).partition(" ")[0]
        yield source, list(dict.fromkeys(items))


def examples(all_items, ids, rng):
    """Returns contexts `[n, 8]` and labels `[n]`, one for each known item.

    The context of an item is a random choice of the others; -1: none.
    """
    contexts, labels = [], []
    for items in all_items:
        basket = np.array([ids[item] for item in items if item in ids])
        for i in range(basket.size if basket.size > 1 else 0):
            others = rng.permutation(np.delete(basket, i))[:_LENGTH]
            contexts.append(
                np.pad(others, (0, _LENGTH - others.size), constant_values=-1)
            )
            labels.append(basket[i])
    return np.array(contexts, np.int32), np.array(labels, np.int32)
