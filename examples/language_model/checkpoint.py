"""Saving such that a kill at any moment leaves the earlier file whole.

One `.keras` file is the whole state of a run: the model with its optimizer as
Keras saves them, and in one further member of that zip archive the settings,
the vocabulary and the history. One rename thus moves a run from one epoch to
the next.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import zipfile

import keras

from examples.language_model import settings as settings_lib

MODEL = "model.keras"
_RUN = "language_model.json"


@dataclasses.dataclass
class Run:
    """The state of a run beside its model.

    Attributes:
        settings: what the run was started with.
        digest: `corpus.Corpus.digest` of its text.
        words: the class names.
        history: one dict per finished epoch.
    """

    settings: settings_lib.Settings
    digest: str
    words: tuple[str, ...]
    history: list[dict]


@contextlib.contextmanager
def atomic(path):
    """Yields the name of a file that becomes `path` if the block ends well.

    The file is in the folder of `path` and has its suffix. What a killed run
    left in it is overwritten by the next.
    """
    path = pathlib.Path(path)
    unfinished = path.with_name(f".unfinished-{path.name}")
    try:
        yield unfinished
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path, value):
    """Writes `value` as JSON, atomically."""
    with atomic(path) as name, open(name, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)


def save(folder, model, run):
    """Writes the whole state to `MODEL` in `folder`, atomically."""
    with atomic(pathlib.Path(folder) / MODEL) as name:
        model.save(name)
        with zipfile.ZipFile(name, "a") as archive:
            archive.writestr(_RUN, json.dumps(dataclasses.asdict(run)))


def load(folder):
    """Returns `(model, run)` as `save` wrote them.

    Raises:
        FileNotFoundError: no run was saved in `folder`.
        ValueError: the file is a Keras model of another program.
    """
    path = pathlib.Path(folder) / MODEL
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no run to resume.")
    with zipfile.ZipFile(path) as archive:
        if _RUN not in archive.namelist():
            raise ValueError(f"{path} was not saved by this program.")
        state = json.loads(archive.read(_RUN))
    run = Run(
        settings=settings_lib.Settings(**state["settings"]),
        digest=state["digest"],
        words=tuple(state["words"]),
        history=state["history"],
    )
    return keras.models.load_model(path), run
