"""The benchmark of beam search, on small sizes."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.beam_search import implementations, main, timing
from benchmarks.heads import best_classes
from tests.support import benchmarks


def test_searches_are_timed_and_compared(monkeypatch, tmp_path, capsys):
    benchmarks.measure_here(monkeypatch)
    _, result = benchmarks.run_command(
        main,
        tmp_path / "figures.json",
        "--workload=tiny",
        "--distribution=peaked",
        "--batch=1,3",
        "--beam_width=4",
        "--length=3",
        "--repetitions=2",
    )
    output = capsys.readouterr().out
    assert 0 < result["clarity"]["top_1"] <= 1
    for batch in ("1", "3"):
        for name in implementations.NAMES:
            assert result["batches"][batch][name]["p50_ms"] > 0
            assert f"\n{name} " in output
        assert f"batch {batch}, width 4, 3 steps" in output
    assert output.count("those of the tree: same bits") == 2


def test_another_result_is_seen(monkeypatch):
    """The bits of the results are compared, and not those of another model."""
    benchmarks.measure_here(monkeypatch)
    search = implementations._search

    def wrong(head, inputs, k, **options):
        found = search(head, inputs, k, **options)
        return found._replace(classes=found.classes[:, ::-1])

    question = timing.Question((2,), 3, 2)
    result = timing.measure(
        benchmarks.random_source(), question, benchmarks.make_settings()
    )
    assert not timing.is_wrong(result)
    monkeypatch.setitem(implementations._BEST, implementations.TOP_K, wrong)
    result = timing.measure(
        benchmarks.random_source(), question, benchmarks.make_settings()
    )
    assert timing.is_wrong(result)


def test_what_cannot_fit_is_refused(monkeypatch):
    benchmarks.measure_here(monkeypatch)
    # 1,032 rows of 17 numbers are 70 kB; so are the full softmax's again.
    question = timing.Question((8,), 2, 2)
    result = timing.measure(
        benchmarks.random_source(), question, benchmarks.make_settings(120e3)
    )
    refused = {
        name
        for name, time in result["batches"][8].items()
        if time.get("refused")
    }
    assert refused == {implementations.FULL, implementations.LOG_PROBS}
    assert not timing.is_wrong(result)


def test_every_call_reads_other_inputs():
    """And the hypotheses of a start those that follow from it."""
    head = benchmarks.make_head(benchmarks.random_source())
    search = implementations.make(implementations.OURS, head, 5, 3, 4)
    log_probs, classes = search(tf.range(5, dtype=tf.int64))
    assert len({tuple(row) for row in classes[:, 0].numpy()}) == 5
    total = 0.0
    for position, place in enumerate([0, *classes[2, 1, :-1].numpy()]):
        place = (2 if position == 0 else place) + 7919 * position
        hidden = head.inputs[place % 20][np.newaxis]
        p = best_classes.of_tree(head, hidden, 1000)
        c = classes[2, 1, position].numpy()
        total += p[0].numpy()[p[1].numpy() == c][0]
    np.testing.assert_allclose(log_probs[2, 1], total, rtol=1e-5)


@pytest.mark.parametrize(
    ("argument", "message"),
    [("--beam_width=0", "positive"), ("--length=-1", "positive")],
)
def test_flags_are_checked(argument, message):
    benchmarks.assert_flag_is_refused(main, argument, message)
