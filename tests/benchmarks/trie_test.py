"""The benchmark of constrained searches, on small sizes."""

import numpy as np
import pytest

from benchmarks.trie import searches
from tests.support.benchmarks import figures_of, measure_here


@pytest.mark.parametrize("dicts", [True, False])
def test_it_prints_a_table_and_writes_json(
    dicts, tmp_path, monkeypatch, capsys
):
    measure_here(monkeypatch)
    report = figures_of(
        "trie",
        tmp_path,
        "--items=300",
        "--num_codes=9",
        "--levels=4",
        "--beam_width=5",
        "--repetitions=3",
        "--dicts" if dicts else "--nodicts",
    )
    output = capsys.readouterr().out
    (found,) = report["searches"]
    names = [searches.FREE, searches.TRIE]
    names += [searches.MASKED, searches.MASKED_EACH]
    assert [*found["searches"]] == names + [searches.HOST] * dicts
    for name, times in found["searches"].items():
        assert f"\n{name} " in output
        assert times["ms"] == sorted(times["samples_ms"])[1] > 0
    assert found["searches"][searches.FREE]["added_ms"] == 0
    assert found["invalid"] == 0
    assert "300 items of 4 levels of 9 codes" in output


def test_an_invalid_item_is_counted(monkeypatch):
    """As where the search of the trie finds what the dicts do not have."""
    measure_here(monkeypatch)
    monkeypatch.setattr(
        searches.Model,
        "constrained_search",
        lambda self, *_: self.free_search(),
    )
    sizes = searches.Sizes(30, 9, 4, 5)
    assert searches.measure(sizes, 1, 1, True)["invalid"] > 0


@pytest.mark.parametrize("num_codes", [3, 2048])
def test_no_path_is_drawn_twice(num_codes):
    codes = searches._draw_codes(searches.Sizes(80, num_codes, 4, 5))
    assert len(np.unique(codes, axis=0)) == 80
    assert codes.min() >= 0 and codes.max() < num_codes
