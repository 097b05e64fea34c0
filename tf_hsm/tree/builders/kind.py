"""The names of builders on the command line, and their arguments."""

import dataclasses
from collections.abc import Callable

import numpy as np

from tf_hsm.cost.model import CostModel
from tf_hsm.tree.class_files import Examples


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of the command line beside the text that names a tree.

    Attributes:
      counts: `[N]`, how often each class occurs, or None.
      words: N strs, the names of the classes, or None.
      data: the `class_files.Examples` to make a tree of, or None.
      num_classes: N, or None where neither counts nor the user say it.
      batch: the examples in a step.
      width: of the inputs.
      cost_model: a `CostModel` that is calibrated here, or None.
      flags: the values of the `Flag`s of all kinds, by name.
    """

    counts: np.ndarray | None
    words: list[str] | None
    data: Examples | None
    num_classes: int | None
    batch: int
    width: int
    cost_model: CostModel | None
    flags: dict[str, object]

    def needed_num_classes(self, kind):
        """Returns N; ValueError where `kind`, a name, cannot know it."""
        if self.num_classes is None:
            raise ValueError(
                f"{kind} needs --counts=FILE, --data=FILE or --num_classes=N"
            )
        return self.num_classes

    def needed_data(self, kind):
        """Returns the labels and contexts; ValueError if there are none."""
        if self.data is None:
            raise ValueError(f"{kind} needs --data=FILE.npz")
        return self.data

    def needed_counts(self, kind):
        """Returns the counts, which are all alike where only N is known."""
        if self.counts is not None:
            return self.counts
        num_classes = max(self.needed_num_classes(kind), 0)
        # A view of one number: the builder says if so many are too many.
        return np.broadcast_to(np.int64(1), [num_classes])


class Flag:
    """A flag of the command line that one kind of tree has for itself."""

    def __init__(self, name, convert=None, **settings):
        """Describes the flag `name`, without its dashes.

        `convert` is a function of what the parser returns, where that is not
        yet what the builder takes. `settings` are for
        `ArgumentParser.add_argument`.
        """
        self.name = name
        self.convert = convert or (lambda value: value)
        self.settings = settings


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of tree that the command line makes of `name` or `name:value`.

    Attributes:
      name: of the kind.
      help: what each form of the text makes, by form.
      build: a function of `Tree`, the value, "" where there is none, and
        `Options`. It returns a tree.
      needs: what the value must be, for a message, where there must be one.
      flags: the `Flag`s that are for this kind alone.
      reports: whether the builder itself says how far it is.
    """

    name: str
    help: dict[str, str]
    build: Callable
    needs: str | None = None
    flags: tuple[Flag, ...] = ()
    reports: bool = False


def parse_fanouts(text):
    """Returns "100" as 100, and "10,20" as [10, 20]."""
    numbers = parse_integers("a fanout", text)
    return numbers if len(numbers) > 1 else numbers[0]


def parse_integers(what, text):
    """Returns "10,20" as [10, 20]; ValueError if it is something else."""
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise ValueError(
            f"{what} is an integer, and a comma is between two; not {text!r}"
        ) from error
