"""The benchmark of a Transformer's heads, on a tiny model."""

import numpy as np
import pytest

from benchmarks.transformer import measurement
from tests.support.benchmarks import figures_of, measure_here

SIZES = measurement.Sizes(classes=50, width=8, blocks=1, sequences=2, steps=6)


def test_it_measures_every_head(monkeypatch, tmp_path, capsys):
    measure_here(monkeypatch)
    flags = [f"--{name}={value}" for name, value in SIZES._asdict().items()]
    report = figures_of("transformer", tmp_path, *flags, "--repetitions=1")
    assert [h["head"] for h in report["heads"]] == [*measurement.HEADS]
    for head in report["heads"]:
        result = head["result"]
        # Two slots, the rate, and the count of steps.
        assert result["optimizer"] >= 2 * result["parameters"]
        assert result["peak"] > 0 and len(result["losses"]) == 2
    assert "50 classes, 1 blocks of width 8, 2 x 6 tokens" in (
        capsys.readouterr().out
    )


def test_tied_heads_compute_the_same():
    """From equal weights, the losses of three steps are equal."""
    models = [
        measurement.make_model(name, SIZES) for name in ("flat", "reversible")
    ]
    models[1].set_weights(models[0].get_weights())
    text = np.random.default_rng(0).integers(50, size=[2, 7])
    losses = [
        [m.train_on_batch(text[:, :-1], text[:, 1:]) for _ in range(3)]
        for m in models
    ]
    assert losses[0][2] < losses[0][0]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
