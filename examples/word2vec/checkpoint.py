"""The whole state of a run, in one file that is replaced at once.

`numpy.load` reads it: an array for each variable, and the `Run` as JSON.
"""

import dataclasses
import io
import json
import pathlib
import zipfile

import numpy as np

from examples.common import files
from examples.word2vec.settings import Settings

FILE = "checkpoint.npz"
EARLIER = "earlier.npz"
_RUN = "run"


@dataclasses.dataclass
class Run:
    """The state of a run beside its tables.

    Attributes:
        settings: The settings of the run.
        digest: The `text.Text.digest` of its text.
        epochs_done: Finished epochs.
        slices_done: Slices of the epoch after these.
        words_done: The words of all these slices.
        loss: The sum of the losses of `slices_done`, in nats.
        num_examples: The number of these losses.
    """

    settings: Settings
    digest: str
    epochs_done: int = 0
    slices_done: int = 0
    words_done: int = 0
    loss: float = 0.0
    num_examples: int = 0


def exists(folder):
    """Returns whether a run was saved in `folder`."""
    return (pathlib.Path(folder) / FILE).is_file()


def set_aside(folder):
    """Renames the run in `folder` to `EARLIER`."""
    folder = pathlib.Path(folder)
    files.rename(folder / FILE, folder / EARLIER)


def save(folder, run, variables):
    """Writes the whole state to `FILE` in `folder`, atomically.

    Args:
        folder: A path.
        run: The `Run`.
        variables: `model.Model.variables`.
    """
    arrays = {name: value.numpy() for name, value in variables.items()}
    arrays[_RUN] = np.array(json.dumps(dataclasses.asdict(run)))
    with files.atomic(pathlib.Path(folder) / FILE) as name:
        np.savez(name, **arrays)


def load(folder):
    """Returns the `Run` in `folder`.

    Raises:
        OSError: No run was saved there.
        ValueError: The file is damaged or of another program.
    """
    path = pathlib.Path(folder) / FILE
    with files.refused_if_damaged(path), zipfile.ZipFile(path) as archive:
        state = json.loads(str(_array(archive, _RUN)))
    return Run(**{**state, "settings": Settings(**state["settings"])})


def load_tables(folder, variables):
    """Reads the values of `variables`, by the names that `save` was given.

    Raises:
        OSError: No run was saved in `folder`.
        ValueError: The file is damaged or of another model.
    """
    path = pathlib.Path(folder) / FILE
    with files.refused_if_damaged(path), zipfile.ZipFile(path) as archive:
        for name, variable in variables.items():
            variable.assign(_array(archive, name))


def _array(archive, name):
    # `read` checks the checksum before NumPy looks at the sizes.
    return np.load(io.BytesIO(archive.read(f"{name}.npy")))
