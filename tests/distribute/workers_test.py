"""A head over the workers of a cluster trains as one on one device does."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import private, workers
from tests.support import replicated_heads as heads
from tests.support.training import assert_near, assert_same
from tf_hsm import distribute
from tf_hsm.runtime.replicas import copies_of


def trained(name, rule, devices, start, folder):
    """Trains in a worker with so many devices; saves what it has."""
    private.let_workers_have_cpus(devices)
    head = heads.make_head(name, rule, "workers")
    head.load_own_variables(start)
    results = heads.train(head, name, "workers")
    strategy = heads.strategy_of("workers")
    if devices > 1:
        batch = [heads.split(strategy, x) for x in next(heads.batches(name))]
        with pytest.raises(
            ValueError, match=r"strategy\.run in a tf\.function"
        ):
            strategy.run(heads.step_of(head), batch)
    saved = distribute.checkpoint(head)
    distribute.save(saved, f"{folder}/first", strategy)
    distribute.save(saved, f"{folder}/last", strategy)
    tops = map(copies_of, (head.kernel, head.bias))
    return results, [[copy.numpy() for copy in copies] for copies in tops]


def restored(name, rule, folder):
    """Restores in a worker, and saves again."""
    head = heads.make_head(name, rule, "workers", seed=1)
    saved = distribute.checkpoint(head)
    path = tf.train.latest_checkpoint(folder)
    saved.restore(path).assert_existing_objects_matched()
    strategy = heads.strategy_of("workers")
    distribute.save(saved, f"{folder}/again", strategy, max_to_keep=2)


def restored_here(name, rule, path, count):
    """The state of a head in this process that restores a checkpoint."""
    head = heads.make_head(name, rule, count, seed=1)
    distribute.checkpoint(head).restore(path).assert_consumed()
    return heads.state(head)


@pytest.mark.parametrize(
    "name, rule, count, devices, others",
    [
        ("huffman", "rowwise_adagrad", 2, 1, 3),
        ("pinned", "lazy_adam", 4, 1, 2),
        ("chain", "adagrad", 2, 2, 3),
    ],
)
def test_as_on_one_device(name, rule, count, devices, others, tmp_path):
    """Losses, gradients, weights and slots; a worker may have no example.

    A checkpoint has the same bits on other workers, replicas and one device.
    """
    one = heads.make_head(name, rule)
    start = heads.start_of(one)
    wanted, state = heads.train(one, name)
    found = workers.run(
        trained, count, name, rule, devices, start, str(tmp_path)
    )
    results, tops = zip(*found, strict=True)
    joined = [
        [np.concatenate(values) for values in zip(*of_step, strict=True)]
        for of_step in zip(*results, strict=True)
    ]
    assert_near(joined, wanted, 1e-12)
    # The copies of the top have the same bits.
    for copies in zip(*tops, strict=True):
        bits = [copy for of_worker in copies for copy in of_worker]
        assert_same(bits, bits[:1] * count * devices)
    here = functools.partial(restored_here, name, rule)
    of_one = here(tmp_path / "last", 1)
    assert_near(of_one, state, 1e-12)
    assert_same(here(tmp_path / "last", 4), of_one)
    assert not list(tmp_path.glob("*_parts"))
    if others:
        workers.run(restored, others, name, rule, str(tmp_path))
        assert_same(here(tmp_path / "again", 1), of_one)
        assert not list(tmp_path.glob("first.*"))
