"""Reads and writes the files of a case: CASE.keras and CASE.zip."""

import contextlib
import pathlib
import shutil
import tempfile
import zipfile

import keras
import numpy as np
import tensorflow as tf

from tests.golden.heads.answers import K
from tests.golden.heads.bodies import WIDTH
from tests.golden.heads.cases import head_of, make_model
from tf_hsm import serving

FOLDER = pathlib.Path(__file__).parent
# The exports of the other two heads are larger than all other files together,
# and tests/golden/export has one of a HierarchicalSoftmax.
EXPORTED = ("label_tree_own", "sampled_counts")
_ARRAYS = "arrays.npz"
# Archives hold times. A fixed one makes files of equal contents equal.
_TIME = (2026, 1, 1, 0, 0, 0)


def recorded(name):
    """Returns the arrays that `write` was given."""
    with unpacked(name) as folder, np.load(folder / _ARRAYS) as arrays:
        return dict(arrays)


def from_keras(name):
    """Returns the model of CASE.keras."""
    return keras.models.load_model(FOLDER / f"{name}.keras")


def from_weights(name):
    """Returns a new model with the weights of the weights file."""
    model = _new_model(name)
    with unpacked(name) as folder:
        model.load_weights(folder / "saved.weights.h5")
    return model


def from_checkpoint(name):
    """Returns a new model with the values of the checkpoint."""
    model = _new_model(name)
    with unpacked(name) as folder:
        _checkpoint(model).read(folder / "checkpoint").assert_consumed()
    return model


# By the names of the kinds of files that have a model that can train on.
LOADERS = {
    "keras": from_keras,
    "weights": from_weights,
    "checkpoint": from_checkpoint,
}


def export(name):
    """Returns the export of a case in `EXPORTED`."""
    with unpacked(name) as folder:
        return tf.saved_model.load(folder / "export")


@contextlib.contextmanager
def unpacked(name):
    """Within, a folder has the files of CASE.zip."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(FOLDER / f"{name}.zip") as archive:
            archive.extractall(folder)
        yield pathlib.Path(folder)


@contextlib.contextmanager
def written(name, model):
    """Writes the files of a case.

    Args:
        name: That of the case.
        model: The trained model. It is saved at once.

    Yields:
        A dictionary, whose arrays are saved in the end.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        model.save(folder / "saved.keras")
        with zipfile.ZipFile(folder / "saved.keras") as archive:
            archive.extractall(folder / "saved")
        _pack(folder / "saved", FOLDER / f"{name}.keras")
        others = folder / "others"
        others.mkdir()
        model.save_weights(others / "saved.weights.h5")
        _checkpoint(model).write(others / "checkpoint")
        if name in EXPORTED:
            _export(model, others / "export")
        arrays = {}
        yield arrays
        # The archive compresses them, names and headers too.
        np.savez(others / _ARRAYS, **arrays)
        _pack(others, FOLDER / f"{name}.zip")


def _new_model(name):
    model = make_model(name)
    model.optimizer.build(model.trainable_variables)
    return model


def _checkpoint(model):
    return tf.train.Checkpoint(model=model, optimizer=model.optimizer)


def _export(model, path):
    """Exports a head without the layers below it."""
    hidden = keras.Input([WIDTH], name="hidden")
    outputs = head_of(model)(hidden)
    serving.export(keras.Model(hidden, outputs), path, k=K)
    # The version under test has an op library of its own.
    shutil.rmtree(path / "assets.extra")


def _pack(folder, path):
    """Writes the files of a folder to an archive, compressed."""
    with zipfile.ZipFile(path, "w", compresslevel=9) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            info = zipfile.ZipInfo(str(file.relative_to(folder)), _TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
