"""Recurrent cells of one's own in the language model."""

import keras
import numpy as np
import pytest

from examples.common import program
from examples.language_model import (
    cells,
    checkpoint,
    generate,
    own_cell,
    recurrent,
    run,
    settings,
    train,
)
from tests.support import language_models
from tests.support.language_models import check_resumed, small_settings

MODULE = "examples.language_model.cells"

# A file of a user.
OWN = '''
import keras


@keras.saving.register_keras_serializable()
class Mean(keras.layers.Layer):
    """Keeps a mean of what it has seen."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, input_shape):
        self.kernel = self.add_weight((input_shape[-1], self.units))

    def call(self, inputs, states):
        mean = (states[0] + inputs @ self.kernel) / 2
        return mean, [mean]


@keras.saving.register_keras_serializable()
class Twice(Mean):
    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.output_size = 2 * units


@keras.saving.register_keras_serializable()
class Fixed(Mean):
    def __init__(self, units):
        super().__init__(units)


class NotRegistered(Mean):
    pass


class NoLayer:
    def __init__(self, units):
        self.state_size = units

    def call(self, inputs, states):
        return states[0], states


number = 3
'''


@pytest.fixture
def file(tmp_path):
    """The user's file."""
    path = tmp_path / "own.py"
    path.write_text(OWN)
    return path


def sigmoid(x):
    """Elementwise."""
    return 1 / (1 + np.exp(-x))


def test_the_cells_are_those_of_the_papers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 4)).astype(np.float32)
    for kind in (cells.Elman, cells.SCRNN):
        layer = keras.layers.RNN(kind(10), return_sequences=True)
        layer.build(x.shape)
        for weight in layer.weights:
            weight.assign(rng.normal(size=weight.shape))
        h, s = np.zeros((2, 10)), np.zeros((2, 0))
        weights = {v.name: v.numpy() for v in layer.weights}
        if kind is cells.SCRNN:
            h, s = np.zeros((2, 8)), np.zeros((2, 2))
        outputs = []
        for t in range(5):
            if kind is cells.SCRNN:
                s = (1 - 0.95) * x[:, t] @ weights["b"] + 0.95 * s
            p, a, r = np.split(
                weights["kernel"], np.cumsum([s.shape[1], 4]), axis=0
            )
            h = sigmoid(s @ p + x[:, t] @ a + h @ r)
            outputs.append(np.concatenate([h, s], axis=1))
        np.testing.assert_allclose(
            layer(x), np.stack(outputs, axis=1), rtol=1e-4, atol=1e-5
        )


text = language_models.text


def test_a_cell_is_trained_saved_and_asked(text, tmp_path, monkeypatch, capsys):
    """One of several states."""
    chosen = small_settings(text, cell=f"{MODULE}:SCRNN", units="20,10")
    job = check_resumed(chosen, tmp_path, monkeypatch)
    last = job.state.history[-1]
    assert last["validation_perplexity"] < last["unigram_perplexity"] / 2
    capsys.readouterr()
    folder = f"--model={tmp_path / 'resumed'}"
    program.run(generate.main, generate.flags, ["generate", folder])
    assert "noun" in capsys.readouterr().out


def save_and_load(text, folder, cell):
    """Returns the cell of a model that was saved and loaded."""
    job = run.prepare(small_settings(text, cell=cell), folder)
    checkpoint.save(folder, job.model, job.state)
    loaded, _ = checkpoint.load(folder)
    return recurrent.layers(loaded)[0].cell


def test_a_cell_of_one_state_is_loaded(text, tmp_path):
    cell = save_and_load(text, tmp_path, f"{MODULE}:Elman")
    assert type(cell) is cells.Elman


def test_a_cell_of_a_file_is_loaded_from_there(text, tmp_path, file):
    cell = save_and_load(text, tmp_path, f"{file}:Mean")
    assert type(cell).__name__ == "Mean"
    file.unlink()
    own_cell._module.cache_clear()
    with pytest.raises(ValueError, match=r"--cell=.*No such file"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize(
    ("cell", "message"),
    (
        ("no.such.module:Cell", "No module named 'no'"),
        ("{file}x.py:Mean", "No such file or directory"),
        (f"{MODULE}:Lstm", f"{MODULE} has no class Lstm"),
        ("{file}:number", "has no class number"),
        ("keras.layers:Dense", r"Dense\(units\) must be a cell .*`state_size`"),
        ("builtins:object", "must be a cell .* takes no arguments"),
        ("{file}:Twice", r"Twice\(10\) must be 10 wide, but are 20"),
        ("{file}:Fixed", "could not be saved. Make Fixed a keras.layers.Layer"),
        ("{file}:NotRegistered", "could not be saved. Make NotRegistered"),
        ("{file}:NoLayer", "could not be saved. Make NoLayer a keras.layers"),
    ),
)
def test_what_is_no_cell_is_named_before_anything_is_read(
    tmp_path, file, cell, message
):
    cell = cell.format(file=file)
    flags = [f"--cell={cell}", "--corpus=missing", f"--save_dir={tmp_path}"]
    with pytest.raises(SystemExit, match=f"^error: --cell=.*: .*{message}"):
        program.run(train.main, train.flags, ["train", *flags])


def test_a_path_is_relative_to_where_the_command_was_given(
    tmp_path, file, monkeypatch
):
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    with pytest.raises(SystemExit) as end:
        program.run(
            train.main,
            train.flags,
            ["train", "--cell=own.py:Mean", "--corpus=missing"],
        )
    assert "--cell" not in str(end.value) and "missing" in str(end.value)
    assert settings.Settings(cell="own.py:Mean").cell == "own.py:Mean"
