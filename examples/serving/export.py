r"""Exports a model for serving: one that `bazel run //:train` saved, or a toy.

bazel run //examples/serving:export
bazel run //examples/serving:export -- --model=lm_model --path=lm_served

README.md beside this file says what is exported.
"""

import sys

from examples.common import program

flags = program.Flags()

_MODEL = flags.DEFINE_string(
    "model",
    "",
    "Folder of a run, the --save_dir of //:train; if empty, a toy is trained.",
)
_PATH = flags.DEFINE_string("path", "served_model", "Folder to make.")
_K = flags.define_count("k", 10, "Classes in an answer.")
_CLASSES = flags.DEFINE_integer(
    "classes", 100_000, "Classes of the toy.", lower_bound=1_000
)


def main():
    """Exports as the flags say; bad input ends in one line and status 1."""
    from examples.serving import models
    from tf_hsm import serving

    try:
        if _MODEL.value:
            models.export_run(_MODEL.value, _PATH.value, _K.value)
        else:
            serving.export(models.toy(_CLASSES.value), _PATH.value, k=_K.value)
    except (OSError, TypeError, ValueError) as error:
        sys.exit(f"error: {error}")
    print(f"Exported to {_PATH.value}")


if __name__ == "__main__":
    program.run(main, flags)
