"""Flags from a file of the folder `recipes`, by its name."""

import pathlib

_FOLDER = pathlib.Path(__file__).parent / "recipes"
NAMES = tuple(sorted(path.stem for path in _FOLDER.glob("*.cfg")))


def expand(argv):
    """Puts the flags of --recipe=NAME before all others, which override them.

    Args:
        argv: name of the program and its arguments.

    Returns:
        The same with a --flagfile, if there is a recipe of that name.
    """
    for argument, value in zip(argv, [*argv[1:], ""], strict=True):
        name, _, given = argument.partition("=")
        if name in ("--recipe", "-recipe") and (given or value) in NAMES:
            path = _FOLDER / f"{given or value}.cfg"
            return [argv[0], f"--flagfile={path}", *argv[1:]]
    return argv
