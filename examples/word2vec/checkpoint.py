"""The whole state of a run, in one file that is replaced at once.

A zip archive: the state of `Run` as JSON, and each variable of the model as an
array of NumPy. `numpy.load` reads the arrays too.
"""

import dataclasses
import json
import pathlib
import zipfile

from examples.common import files
from examples.word2vec import tables
from examples.word2vec.settings import Settings

FILE = "checkpoint.npz"
EARLIER = "earlier.npz"
_RUN = "word2vec.json"


@dataclasses.dataclass
class Run:
    """The state of a run beside its tables.

    Attributes:
        settings: what the run was started with.
        digest: `text.Text.digest` of its text.
        epochs_done: finished epochs.
        slices_done: slices trained on in the epoch after those.
        words_done: words that all these had, see `windows.Slice`.
        loss: the sum of the losses of `slices_done`, in nats.
        num_examples: how many losses these are.
    """

    settings: Settings
    digest: str
    epochs_done: int = 0
    slices_done: int = 0
    words_done: int = 0
    loss: float = 0.0
    num_examples: int = 0


def exists(folder):
    """Whether a run was saved in `folder`."""
    return (pathlib.Path(folder) / FILE).is_file()


def set_aside(folder):
    """Renames the run in `folder` to `EARLIER`; there is none then."""
    folder = pathlib.Path(folder)
    files.rename(folder / FILE, folder / EARLIER)


def save(folder, run, variables):
    """Writes the whole state to `FILE` in `folder`, atomically.

    Args:
        folder: a path.
        run: the `Run`.
        variables: `model.Model.variables`.
    """
    with (
        files.atomic(pathlib.Path(folder) / FILE) as name,
        zipfile.ZipFile(name, "w") as archive,
    ):
        archive.writestr(_RUN, json.dumps(dataclasses.asdict(run)))
        for key, variable in variables.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                tables.write(file, variable)


def load(folder):
    """Returns the `Run` in `folder`.

    Raises:
        OSError: no run was saved there.
        ValueError: the file is damaged or of another program.
    """
    path = pathlib.Path(folder) / FILE
    with _archive(path) as archive, files.refused_if_damaged(path):
        state = json.loads(archive.read(_RUN))
    return Run(**{**state, "settings": Settings(**state["settings"])})


def load_tables(folder, variables):
    """Reads the values of `variables`, by the names that `save` was given.

    Raises:
        OSError: no run was saved in `folder`.
        ValueError: the file is damaged or of another model.
    """
    path = pathlib.Path(folder) / FILE
    with _archive(path) as archive:
        for key, variable in variables.items():
            with (
                files.refused_if_damaged(f"{path}, {key},"),
                archive.open(f"{key}.npy") as file,
            ):
                tables.read(file, variable)


def _archive(path):
    with files.refused_if_damaged(path):
        archive = zipfile.ZipFile(path)
    if _RUN not in archive.namelist():
        archive.close()
        raise ValueError(f"{path} was not saved by this program.")
    return archive
