"""A head over the workers of a cluster trains as one on one device does."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support import private, workers
from tests.support import spread_heads as heads
from tests.support.training import assert_near, assert_same
from tf_hsm import distribute
from tf_hsm.runtime.replicas import copies_of

RULES = {
    "huffman": "rowwise_adagrad",
    "pinned": "lazy_adam",
    "chain": "adagrad",
    "three": "lazy_adam",
}


def trained(name, dtype, devices, start, folder):
    """Trains in a worker with so many devices; saves what it has."""
    private.let_workers_have_cpus(devices)
    head = heads.make_head(name, RULES[name], "workers", seed=1, dtype=dtype)
    heads.load_start(head, start)
    results = heads.train(head, name, "workers")
    strategy = heads.strategy_of("workers")
    if devices > 1:
        batch = [heads.split(strategy, x) for x in next(heads.batches(name))]
        with pytest.raises(
            ValueError, match=r"strategy\.run in a tf\.function"
        ):
            strategy.run(heads.step_of(head), batch)
    checkpoint = distribute.checkpoint(head)
    distribute.save(checkpoint, f"{folder}/first", strategy)
    distribute.save(checkpoint, f"{folder}/last", strategy)
    first, *_ = heads.parts_of(head)
    return results, [[x.numpy() for x in copies_of(v)] for v in first]


def restored(name, dtype, folder):
    """Restores in a worker, and saves again."""
    head = heads.make_head(name, RULES[name], "workers", seed=2, dtype=dtype)
    checkpoint = distribute.checkpoint(head)
    path = tf.train.latest_checkpoint(folder)
    checkpoint.restore(path).assert_existing_objects_matched()
    strategy = heads.strategy_of("workers")
    distribute.save(checkpoint, f"{folder}/again", strategy, max_to_keep=2)


def restored_here(name, dtype, path, count):
    """The state of a head in this process that restores a checkpoint."""
    head = heads.make_head(name, RULES[name], count, seed=3, dtype=dtype)
    distribute.checkpoint(head).restore(path).assert_consumed()
    return heads.state(head)


@pytest.mark.parametrize(
    "name, count, devices, others, dtype",
    [
        ("huffman", 2, 1, 3, "float64"),
        ("pinned", 4, 1, 2, "float64"),
        ("chain", 2, 2, 3, "float64"),
        ("chain", 2, 1, 3, "bfloat16"),
        ("three", 2, 1, 3, "float64"),
        ("three", 2, 2, 0, "float64"),
    ],
)
def test_as_on_one_device(name, count, devices, others, dtype, tmp_path):
    """Losses, gradients, weights and slots; a worker may have no example.

    A checkpoint has the same bits on other workers, replicas and one device.
    """
    tolerance = 1e-12 if dtype == "float64" else 0.1
    one = heads.make_head(name, RULES[name], dtype=dtype)
    start = heads.start_for_workers(one, tmp_path / "one")
    wanted, _ = heads.train(one, name)
    found = workers.run(
        trained, count, name, dtype, devices, start, str(tmp_path)
    )
    results, firsts = zip(*found, strict=True)
    joined = [
        [np.concatenate(values) for values in zip(*of_step, strict=True)]
        for of_step in zip(*results, strict=True)
    ]
    assert_near(joined, wanted, tolerance)
    # The copies of the first part have the same bits.
    for copies in zip(*firsts, strict=True):
        bits = [copy for of_worker in copies for copy in of_worker]
        assert_same(bits, bits[:1] * count * devices)
    of_one = restored_here(name, dtype, tmp_path / "last", 1)
    assert_near(of_one, heads.state(one), tolerance)
    assert_same(restored_here(name, dtype, tmp_path / "last", 4), of_one)
    assert not list(tmp_path.glob("*_parts"))
    if others:
        workers.run(restored, others, name, dtype, str(tmp_path))
        assert_same(restored_here(name, dtype, tmp_path / "again", 1), of_one)
        assert not list(tmp_path.glob("first.*"))
