"""Programs of this repository within the process of a test."""

import contextlib
import importlib
import sys

from absl import flags
from absl.testing import flagsaver


@contextlib.contextmanager
def program(name):
    """Imports a program as a new process would: no other program has flags.

    Args:
      name: of the module, like "benchmarks.loss.main".
    """
    modules = {module: sys.modules.pop(module) for module in _own_modules()}
    others = _remove_flags()
    try:
        yield importlib.import_module(name)
    finally:
        _remove_flags()
        for module in _own_modules():
            del sys.modules[module]
        sys.modules.update(modules)
        for module, flag in others:
            flags.FLAGS[flag.name] = flag
            flags.FLAGS.register_flag_by_module(module, flag)


def run(name, *arguments):
    """Calls `main` of a program with these flags."""
    with program(name) as module, flagsaver.flagsaver():
        flags.FLAGS([name, *arguments])
        module.main(None)


def outcome(capsys, main, *arguments):
    """Calls `main(arguments)` of a program that may exit.

    Returns:
      The exit status, and the lines of stdout and stderr.
    """
    try:
        status = main([*arguments])
    except SystemExit as error:
        status = error.code
    out, err = capsys.readouterr()
    return status, out.splitlines(), err.splitlines()


def _own_modules():
    """The names of modules that a program does not share with others.

    What the benchmarks share stays, unless it defines flags.
    """
    with_flags = flags.FLAGS.flags_by_module_dict()
    return [
        module
        for module in sys.modules
        if module.startswith(("benchmarks.", "examples."))
        and (
            not module.startswith("benchmarks.common.") or module in with_flags
        )
    ]


def _remove_flags():
    """Removes and returns (module, flag) of the programs imported so far."""
    removed = [
        (module, flag)
        for module, defined in flags.FLAGS.flags_by_module_dict().items()
        if module.startswith(("benchmarks.", "examples."))
        for flag in defined
    ]
    for _, flag in removed:
        delattr(flags.FLAGS, flag.name)
    return removed
