"""An adaptive softmax over workers trains as one on one device does."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.support import private, workers
from tests.support import replicated_heads as heads
from tests.support import replicated_tails as tails
from tests.support.training import assert_near, assert_same
from tf_hsm import distribute

RULE = "lazy_adam"


def error_of(function, *args):
    """The text of the error that a call raises."""
    try:
        function(*args)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def trained(devices, start, folder):
    """Trains in a worker with so many devices; saves what it has."""
    private.let_workers_have_cpus(devices)
    head = tails.make_head("three", RULE, "workers", seed=1)
    saved = distribute.checkpoint(head)
    saved.restore(start).assert_existing_objects_matched()
    results = tails.train(head, "workers")
    strategy = heads.strategy_of("workers")
    batch = next(tails.batches())
    batch[1][-1] = heads.N
    optimizer = tails.make_optimizer(head, "workers")
    step = tf.function(
        lambda *x: strategy.run(tails.step_of(head, optimizer), x),
        autograph=False,
    )
    errors = [
        error_of(step, *(heads.split(strategy, x) for x in batch)),
        error_of(head.save_own_variables, {}),
        error_of(saved.write, f"{folder}/mine"),
        error_of(tf.train.Checkpoint(head=head).write, f"{folder}/plain"),
        error_of(head, *(x[:3] for x in batch[:2])),
        error_of(head.top_k, batch[0], 3),
    ]
    distribute.save(saved, f"{folder}/first", strategy)
    return results, errors


def restored(folder):
    """Restores in a worker, and saves again."""
    head = tails.make_head("three", RULE, "workers", seed=2)
    saved = distribute.checkpoint(head)
    path = tf.train.latest_checkpoint(folder)
    saved.restore(path).assert_existing_objects_matched()
    distribute.save(saved, f"{folder}/again", heads.strategy_of("workers"))


def restored_here(path, count):
    """The state of a head in this process that restores a checkpoint."""
    head = tails.make_head("three", RULE, count, seed=3)
    distribute.checkpoint(head).restore(path).assert_consumed()
    return heads.state(head)


@pytest.mark.parametrize("count, devices, others", [(2, 1, 3), (2, 2, 0)])
def test_as_on_one_device(count, devices, others, tmp_path):
    """Losses, gradients, weights and slots; a worker may have no example.

    A checkpoint has the same bits on other workers, replicas and one device.
    """
    one = tails.make_head("three", RULE)
    start = distribute.checkpoint(one).save(tmp_path / "start" / "one")
    wanted, state, _ = tails.train(one)
    found = workers.run(trained, count, devices, start, str(tmp_path))
    results, errors = zip(*found, strict=True)
    joined = [
        [np.concatenate(values) for values in zip(*of_step, strict=True)]
        for of_step in zip(*results, strict=True)
    ]
    assert_near(joined, wanted, 1e-12)
    of_one = restored_here(tmp_path / "first", None)
    assert_near(of_one, state, 1e-12)
    assert_same(restored_here(tmp_path / "first", 4), of_one)
    if others:
        workers.run(restored, others, str(tmp_path))
        assert_same(restored_here(tmp_path / "again", None), of_one)
    for bad, own, written, *others_have in errors:
        assert re.search(rf"labels\[\d+\] = {heads.N} of replica", bad)
        assert "other workers have" in own
        assert "call tf_hsm.distribute.save on all workers" in written
        for error in others_have:
            assert "other workers have" in error
