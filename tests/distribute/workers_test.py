"""A head over the workers of a cluster trains as one on one device does."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import replicated_heads as heads
from tests.support import workers
from tests.support.training import assert_near, assert_same
from tf_hsm import distribute


def trained(name, rule, start, folder):
    """Trains in a worker; saves what it has."""
    head = heads.make_head(name, rule, "workers")
    head.load_own_variables(start)
    results = heads.train(head, name, "workers")
    strategy = heads.strategy_of("workers")
    saved = distribute.checkpoint(head)
    distribute.save(saved, f"{folder}/first", strategy)
    distribute.save(saved, f"{folder}/last", strategy)
    return results, [v.numpy() for v in (head.kernel, head.bias)]


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
    "name, rule, count, others",
    [
        ("huffman", "rowwise_adagrad", 2, 3),
        ("pinned", "lazy_adam", 4, 2),
    ],
)
def test_as_on_one_device(name, rule, count, others, tmp_path):
    """Losses, gradients, weights and slots; a worker may have no example.

    A checkpoint has the same bits on other workers, replicas and one device.
    """
    one = heads.make_head(name, rule)
    start = heads.start_of(one)
    wanted, state = heads.train(one, name)
    found = workers.run(trained, count, name, rule, start, str(tmp_path))
    results, tops = zip(*found, strict=True)
    joined = [
        [np.concatenate(values) for values in zip(*of_step, strict=True)]
        for of_step in zip(*results, strict=True)
    ]
    assert_near(joined, wanted, 1e-12)
    # The copies of the top have the same bits.
    assert_same(tops, [tops[0]] * count)
    here = functools.partial(restored_here, name, rule)
    of_one = here(tmp_path / "last", 1)
    assert_near(of_one, state, 1e-12)
    assert_same(here(tmp_path / "last", 4), of_one)
    workers.run(restored, others, name, rule, str(tmp_path))
    assert_same(here(tmp_path / "again", 1), of_one)
    assert not list(tmp_path.glob("first.*"))
    assert not list(tmp_path.glob("*_parts"))
