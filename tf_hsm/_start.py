"""The settings that must come before TensorFlow and Keras are imported.

It checks the environment. For the command `python -m tf_hsm` it does so in
`import_tensorflow`: Python imports the package before its `__main__`, and help,
errors in arguments and trees do not need TensorFlow, which takes seconds to
import and writes lines. So for the command the package imports none of its
public names, and each command imports the modules that it needs.
"""

import contextlib
import os
import sys
import warnings

# This TF_CPP_MIN_LOG_LEVEL hides all lines, but not Python's errors.
_QUIET = "3"


def is_command():
    """Returns whether Python looks for a module of this package to run it.

    While it does so for its option -m, sys.argv[0] is "-m", and the arguments
    of the module follow. Before them, sys.orig_argv ends with the module.
    """
    if sys.argv[:1] != ["-m"]:
        return False
    option = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1][-1]
    if option.startswith("-"):
        option = option.partition("m")[2]  # as in -Imtf_hsm
    return option.split(".")[0] == __package__


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


def check_backend():
    """Raises an ImportError unless Keras runs on TensorFlow.

    A backend that is not installed would be an error of Keras, which does not
    name the cause.
    """
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend != "tensorflow" and "keras" not in sys.modules:
        raise ImportError(
            "tf_hsm needs Keras on TensorFlow, but the environment variable "
            f"KERAS_BACKEND is {backend}: set it to tensorflow before Keras is "
            "imported"
        )


def warn_of_legacy_keras():
    """Warns if tf.keras is Keras 2."""
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower()
    if legacy in ("1", "true"):
        warnings.warn(
            "TF_USE_LEGACY_KERAS is set, so that tf.keras is Keras 2, whose "
            "models cannot have layers of tf_hsm: write `import keras`, which "
            "is Keras 3, or unset it",
            stacklevel=3,
        )


def import_tensorflow():
    """Imports TensorFlow in silence, for a command that needs it.

    TensorFlow writes lines before it reads TF_CPP_MIN_LOG_LEVEL. If that is set
    to less than 3, the lines appear.
    """
    if "tensorflow" in sys.modules:
        return
    check_backend()
    level = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", _QUIET)
    is_quiet = level == _QUIET and sys.stderr is not None
    with _no_stderr() if is_quiet else contextlib.nullcontext():
        import tensorflow  # noqa: F401


if not is_command():
    check_backend()
    warn_of_legacy_keras()
