"""The recommender, on a shop of a few items."""

import re

import numpy as np
import pytest

from examples.common import program
from examples.recommender import client, data, train

TINY = [
    "--items=600",
    "--sessions=20000",
    "--test_sessions=60",
    "--width=16",
    "--batch_size=32",
    "--learning_rate=0.01",
    "--steps=60",
    "--new_items=2",
    "--num_sampled=50",
]


def recommend(*arguments):
    program.run(train.main, train.flags, ["train", *TINY, *arguments])


def test_sessions():
    """Items of a session share a topic as often as the module says."""
    shop = data.Shop(600, num_new=2)
    sessions = shop.sessions(4000)
    assert sessions.shape == (4000, 10) and sessions.dtype == np.int32
    assert shop.num_items == 600
    np.testing.assert_array_equal(np.unique(sessions), np.arange(600))
    places = np.argsort(shop._numbers)[sessions]
    topics = places // shop._ranks
    same = topics[:, 1:] == topics[:, :-1]
    popular = np.diff(shop._topic_cdf, prepend=0)
    wanted = data.STAY + (1 - data.STAY) * np.square(popular).sum()
    assert same.mean() == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("head", ["hierarchical", "sampled", "full"])
def test_each_head_learns(head, capsys):
    """Far more than the ten most frequent items would find."""
    recommend(f"--head={head}")
    output = capsys.readouterr().out
    recalls = re.findall(r"recall_at_10 (\S+),", output)
    assert float(recalls[0]) > 0.2
    assert "The best possible recall@10 is about" in output
    if head == "hierarchical":
        # At first, after a pass, and the old items.
        assert len(recalls) == 4
        assert float(recalls[2]) > 0.2 < float(recalls[3])


def test_export_and_client(tmp_path, monkeypatch, capsys):
    """The client's process has the ops already."""
    monkeypatch.chdir(tmp_path)
    recommend("--steps=2", "--save=shop", "--head=sampled")
    assert (tmp_path / "shop/assets.extra/_tf_hsm_ops.so").exists()
    monkeypatch.setattr("tensorflow.load_op_library", lambda path: None)
    capsys.readouterr()
    client.main([str(tmp_path / "shop"), "3", "14"])
    assert len(capsys.readouterr().out.splitlines()) == 10
    client.main([str(tmp_path / "shop"), "3", "--in_stock=9,26,599"])
    items = [
        int(line.split()[1]) for line in capsys.readouterr().out.splitlines()
    ]
    assert sorted(items) == [9, 26, 599]
