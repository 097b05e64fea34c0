"""The whole state of a run, in one file that is replaced at once.

One `.keras` file is the whole state of a run: the model with its optimizer as
Keras saves them, and in two further members of that zip archive the settings,
the vocabulary and the history, and the variables that Keras leaves out. One
rename thus moves a run from one checkpoint to the next.
"""

import dataclasses
import json
import pathlib
import zipfile
import zlib

import keras
import numpy as np

from examples.common import files

# A saved model has layers of `model`, which Keras finds once it is imported.
from examples.language_model import model as _  # noqa: F401
from examples.language_model import recurrent
from examples.language_model import settings as settings_lib

MODEL = "model.keras"
EARLIER = "earlier.keras"
# Errors of `zipfile`: wrong checksums, sizes, methods, names; and of JSON.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, EOFError, KeyError, RuntimeError),
    ValueError,
)
_RUN = "language_model.json"
_VARIABLES = "language_model.npz"


@dataclasses.dataclass
class Run:
    """The state of a run beside its model.

    The position in the text is not here: it follows from the number of finished
    epochs and the optimizer's count of steps.

    Attributes:
        settings: what the run was started with.
        digest: `corpus.Corpus.digest` of its text.
        words: the class names.
        tokens: name of the splitter that makes words of text.
        boundary: the word after each document or line.
        history: a dict for each finished epoch.
    """

    settings: settings_lib.Settings
    digest: str
    words: tuple[str, ...]
    tokens: str
    boundary: str
    history: list[dict]


def exists(folder):
    """Whether a run was saved in `folder`."""
    return (pathlib.Path(folder) / MODEL).is_file()


def set_aside(folder):
    """Renames the run in `folder` to `EARLIER`; `load` finds none then."""
    folder = pathlib.Path(folder)
    files.rename(folder / MODEL, folder / EARLIER)


def save(folder, model, run):
    """Writes the whole state to `MODEL` in `folder`, atomically.

    Training goes on from exactly there: the recurrent states, the random
    generators and the running mean of the loss are saved too.
    """
    with files.atomic(pathlib.Path(folder) / MODEL) as name:
        model.save(name)
        # By its name, ZipFile would make a new file where opening fails.
        with open(name, "r+b") as file, zipfile.ZipFile(file, "a") as archive:
            archive.writestr(_RUN, json.dumps(dataclasses.asdict(run)))
            with archive.open(_VARIABLES, "w") as member:
                np.savez(member, *[v.numpy() for v in _left_out(model)])


def load(folder):
    """Returns `(model, run)` as `save` wrote them.

    Raises:
        FileNotFoundError: no run was saved in `folder`.
        ValueError: the file is damaged or a Keras model of another program.
    """
    run, values = load_run(folder)
    path = pathlib.Path(folder) / MODEL
    try:
        model = keras.models.load_model(path)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    for variable, value in zip(_left_out(model), values, strict=True):
        variable.assign(value)
    return model, run


def load_run(folder):
    """Returns the `Run` in `folder`, and the values of the variables left out.

    Raises as `load` does.
    """
    path = pathlib.Path(folder) / MODEL
    if not exists(folder):
        raise FileNotFoundError(f"{path}: there is no run.")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is damaged: not a .keras file.")
    try:
        with zipfile.ZipFile(path) as archive:
            if not {_RUN, _VARIABLES} <= set(archive.namelist()):
                raise ValueError(f"{path} was not saved by this program.")
            state = json.loads(archive.read(_RUN))
            with archive.open(_VARIABLES) as file, np.load(file) as arrays:
                values = list(arrays.values())
    except _DAMAGED as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    state["settings"] = settings_lib.Settings(**state["settings"])
    state["words"] = tuple(state["words"])
    return Run(**state), values


def _left_out(model):
    """The variables of a model that `model.save` leaves out.

    These are the seeds of its random generators, its recurrent states and the
    sums of its metrics.
    """
    weights = {id(variable) for variable in model.weights}
    seeds = [v for v in model.variables if id(v) not in weights]
    return [*seeds, *recurrent.states(model), *model.metrics_variables]
