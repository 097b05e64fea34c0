"""Measures what `tf_hsm.estimate` says: of models, and what its formulas take.

    bazel run //benchmarks:estimate
    bazel run //benchmarks:estimate -- --models=lstm-full,10m-b400
    bazel run //benchmarks:estimate -- --what=optimizers,slopes,largest,replicas

benchmarks/README.md says what is compared, and how it is measured.
"""

from typing import NamedTuple

from absl import app, flags

from benchmarks.common import command, name_flags
from benchmarks.estimate import (
    compared,
    largest,
    models,
    optimizers,
    replicas,
    slopes,
)

_KINDS = {
    "models": compared,
    "optimizers": optimizers,
    "slopes": slopes,
    "largest": largest,
    "replicas": replicas,
}
_WHAT = name_flags.define(
    "what",
    _KINDS,
    f"What is measured, of {', '.join(_KINDS)}.",
    default=["models"],
)
_MODELS = name_flags.define(
    "models", models.MODELS, f"Models, of {', '.join(models.MODELS)}."
)
_REPETITIONS = flags.DEFINE_integer(
    "repetitions", 7, "Steps that are timed for each figure.", lower_bound=1
)
_CALIBRATE = flags.DEFINE_bool(
    "calibrate",
    True,
    "Measures the machine again beside models and replicas, which takes ten "
    "seconds each; else takes what tf_hsm.estimation.calibrate() found before.",
)


class Settings(NamedTuple):
    """How all is measured."""

    models: tuple[str, ...]
    threads: int
    repetitions: int
    calibrates: bool


def main(_):
    """Measures all that is asked for, prints it and writes the JSON file."""
    settings = Settings(
        tuple(_MODELS.value),
        command.threads(),
        _REPETITIONS.value,
        _CALIBRATE.value,
    )
    figures = command.Figures(settings.threads)
    for name, kind in _KINDS.items():
        if name in _WHAT.value:
            print(flush=True)
            kind.run(figures, settings)


if __name__ == "__main__":
    app.run(main)
