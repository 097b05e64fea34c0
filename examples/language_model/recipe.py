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
    flagfiles = []
    for argument, following in zip(argv, [*argv[1:], ""], strict=True):
        flag, _, name = argument.partition("=")
        name = name or following
        if flag in ("--recipe", "-recipe") and name in NAMES:
            flagfiles = [f"--flagfile={_FOLDER / name}.cfg"]
    return [argv[0], *flagfiles, *argv[1:]]
