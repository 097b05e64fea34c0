"""Keeps TensorFlow's start-up lines from those who run `python -m tf_hsm`.

That command imports the package before its own `__main__`, so this is the
first module that the package imports. For whoever imports the package in a
program, it does nothing.
"""

import contextlib
import os
import sys

# Of TF_CPP_MIN_LOG_LEVEL: no line at all. Python's errors are always shown.
_QUIET = "3"


def is_command():
    """Returns whether Python looks for a module of this package to run it.

    While it does so for its option -m, sys.argv[0] is "-m".
    """
    return sys.argv[:1] == ["-m"] and any(
        argument.split(".")[0] in ("tf_hsm", "-mtf_hsm")
        for argument in sys.orig_argv
    )


@contextlib.contextmanager
def _no_stderr():
    """Drops what the process writes to its standard error, in C++ too."""
    sys.stderr.flush()
    original = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)


def import_tensorflow():
    """Imports TensorFlow for a command, which is then silent.

    TensorFlow writes lines before it reads TF_CPP_MIN_LOG_LEVEL. Who sets that
    to less than 3 sees them.
    """
    level = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", _QUIET)
    is_quiet = level == _QUIET and sys.stderr is not None
    with _no_stderr() if is_quiet else contextlib.nullcontext():
        import tensorflow  # noqa: F401


if is_command():
    import_tensorflow()
