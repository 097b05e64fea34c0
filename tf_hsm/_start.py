"""What comes before TensorFlow and Keras are imported.

It checks the environment, and keeps TensorFlow's start-up lines from those who
run `python -m tf_hsm`. That command imports the package before its own
`__main__`, so this is the first module that the package imports.
"""

import contextlib
import os
import sys
import warnings

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


def check_keras():
    """Says what is wrong with the variables of the environment for Keras.

    A backend that is not installed would be an error of Keras, which does not
    name the cause.

    Raises:
      ImportError: Keras would have another backend than TensorFlow.
    """
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend != "tensorflow" and "keras" not in sys.modules:
        raise ImportError(
            "tf_hsm needs Keras on TensorFlow, but the environment variable "
            f"KERAS_BACKEND is {backend}: set it to tensorflow before Keras is "
            "imported"
        )
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower()
    if legacy in ("1", "true") and not is_command():
        warnings.warn(
            "TF_USE_LEGACY_KERAS is set, so that tf.keras is Keras 2, whose "
            "models cannot have layers of tf_hsm: write `import keras`, which "
            "is Keras 3, or unset it",
            stacklevel=2,
        )


def import_tensorflow():
    """Imports TensorFlow for a command, which is then silent.

    TensorFlow writes lines before it reads TF_CPP_MIN_LOG_LEVEL. Who sets that
    to less than 3 sees them.
    """
    level = os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", _QUIET)
    is_quiet = level == _QUIET and sys.stderr is not None
    with _no_stderr() if is_quiet else contextlib.nullcontext():
        import tensorflow  # noqa: F401


check_keras()
if is_command():
    import_tensorflow()
