"""The program `python -m tf_hsm`: its commands, and how it ends."""

import argparse
import contextlib
import sys

from tf_hsm.cli import (
    estimate_command,
    serve_command,
    tree_command,
    tree_flags,
)
from tf_hsm.cli.parser import Parser


def main(arguments=None):
    """Runs the command; returns its exit status.

    The status is 2 after an error, and 130 after an interrupt (Ctrl-C).

    Args:
      arguments: strs; those of the process when None.
    """
    # A name may have letters that the terminal has not.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")
    flags = parser().parse_args(arguments)
    try:
        flags.run(flags)
    except OSError as error:
        path = error.filename2 or error.filename
        return _fail(f"{error.strerror}: {path}" if path else error)
    except (ValueError, OverflowError, ImportError, MemoryError) as error:
        return _fail(error or type(error).__name__)
    except KeyboardInterrupt:
        _fail("interrupted")
        return 130
    return 0


def parser():
    """Returns the parser of the command line, of all its commands."""
    program = Parser(
        prog="python -m tf_hsm",
        description="Builds, inspects, compares and draws the trees of "
        "hierarchical softmaxes, says what a model will need, and serves a "
        "task of a cluster.",
        epilog=tree_flags.EXAMPLES
        + estimate_command.EXAMPLE
        + serve_command.EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = program.add_subparsers(required=True, metavar="command")
    tree_flags.add(commands).set_defaults(run=tree_command.run)
    estimate_command.add(commands).set_defaults(run=estimate_command.run)
    serve_command.add(commands).set_defaults(run=serve_command.run)
    return program


def _fail(message):
    message = " ".join(str(message).split())
    print(f"python -m tf_hsm: {message}", file=sys.stderr)
    return 2
