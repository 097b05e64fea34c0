"""The program `python -m tf_hsm`: its commands, and its exit status."""

import argparse
import contextlib
import importlib
import sys

from tf_hsm import _build, _start
from tf_hsm.cli import estimate_flags, task_flags, tree_flags
from tf_hsm.cli.parser import Parser


def main(arguments=None):
    """Runs the command; returns its exit status.

    The status is 2 after an error, and 130 after an interrupt (Ctrl-C).

    Args:
      arguments: strs; None: the arguments of the process.
    """
    # A name may have letters that the terminal has not.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")
    flags = parser().parse_args(arguments)
    try:
        _run(flags)
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
        "hierarchical softmaxes, says what a model will need, and runs a task "
        "of a cluster.",
        epilog=tree_flags.EXAMPLES
        + estimate_flags.EXAMPLE
        + task_flags.EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    program.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        help="print the version and the build, and exit",
    )
    commands = program.add_subparsers(required=True, metavar="command")
    tree_flags.add(commands).set_defaults(program="tree")
    estimate_flags.add(commands).set_defaults(program="estimate")
    task_flags.add(commands).set_defaults(program="task")
    return program


class _Version(argparse.Action):
    """Prints which build this is, and ends the process."""

    def __call__(self, program, *arguments):
        print(f"tf_hsm {_build.VERSION}, build {_build.fingerprint()}")
        program.exit()


def _run(flags):
    """Runs a command, whose modules help and wrong arguments do not need."""
    if flags.program != "tree":
        _start.import_tensorflow()
    importlib.import_module(f"tf_hsm.cli.{flags.program}_command").run(flags)


def _fail(message):
    message = " ".join(str(message).split())
    print(f"python -m tf_hsm: {message}", file=sys.stderr)
    return 2
