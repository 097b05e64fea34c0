"""The fuzzer of readers: a short run of it, and what it finds."""

import itertools
import warnings

import keras
import numpy as np

from examples.language_model import checkpoint, settings
from tests.fuzz import readers


def test_damaged_files_are_read_or_refused(tmp_path):
    counts = readers.read_cases(range(500), 1, tmp_path)
    outcomes = itertools.product(readers._READERS, ("read", "refused"))
    assert set(counts) == set(map(" ".join, outcomes))
    assert counts.total() == 500


def test_findings(tmp_path, monkeypatch):
    def fail(path):
        raise KeyError("no such field")

    def warn(path):
        warnings.warn("not in a sentence", SyntaxWarning, stacklevel=1)

    def keep_silent(path):
        raise ValueError

    def hang(path):
        while True:
            path.exists()

    monkeypatch.setattr(readers, "_SECONDS", 0.05)
    for reader, text in (
        (fail, "KeyError: 'no such field'"),
        (warn, "SyntaxWarning: not in a sentence"),
        (keep_silent, "refused without a word"),
        (hang, "_Hang"),
    ):
        monkeypatch.setattr(readers, "_READERS", {"paths.txt": reader})
        [found] = readers.read_cases([7], 0, tmp_path)
        assert found.startswith("WRONG: case 7: paths.txt ") and text in found


def test_checkpoints_of_language_models(tmp_path):
    """A byte that changes is told in a sentence, or changes nothing."""
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    run = checkpoint.Run(
        settings.Settings(), "digest", ("a",), "code", "<eof>", []
    )
    checkpoint.save(tmp_path, model, run)
    path = tmp_path / checkpoint.MODEL
    data, refused = path.read_bytes(), 0
    for at in range(0, len(data), len(data) // 40):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        try:
            loaded, state = checkpoint.load(tmp_path)
        except (ValueError, OSError) as error:
            assert str(error)
            refused += 1
            continue
        assert state == run
        for value, right in zip(
            loaded.get_weights(), model.get_weights(), strict=True
        ):
            np.testing.assert_array_equal(value, right)
    assert refused > 30
