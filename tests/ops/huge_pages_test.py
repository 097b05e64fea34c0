"""Huge pages under variables that a step writes."""

import os
import pathlib
import re

import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forked

_THP = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")


def _megabytes():
    text = pathlib.Path("/proc/self/smaps_rollup").read_text()
    return int(re.search(r"AnonHugePages: +(\d+) kB", text)[1]) // 1024


def gained():
    """The huge pages, in MB, that a step on few rows gives a variable.

    It has 128 MB, whose pages are small before.
    """
    tree = tf_hsm.Tree.balanced(1 << 17, 2)
    weights = tf.Variable(tf.ones([tree.num_rows, 128]))
    optimizer = tf_hsm.optimizers.SGD(0.1)
    optimizer.build([weights])
    last, before = weights[-1].numpy(), _megabytes()
    tf_hsm.hierarchical_softmax_train_step(
        weights,
        None,
        tf.constant([5]),
        tf.ones([1, 128]),
        tree,
        optimizer,
    )
    assert (weights[-1].numpy() == last).all()
    return _megabytes() - before


@pytest.mark.skipif(
    not _THP.exists()
    or "[madvise]" not in _THP.read_text()
    or tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 1),
    reason="this system does not give huge pages to those who ask alone",
)
def test_variables_move_to_huge_pages():
    """Nearly all of 128 MB, unless the user does not want it."""
    assert forked.run(gained) > 100
    never = {"TF_HSM_HUGE_PAGES": "0"}
    assert forked.run(gained, environment=never) < 20
