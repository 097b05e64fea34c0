"""Huge pages under variables that a step writes."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

_THP = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")

# A step on few rows of a variable of 128 MB, whose pages are small before.
_PROGRAM = """
import pathlib
import re

import tensorflow as tf

import tf_hsm


def megabytes():
    text = pathlib.Path("/proc/self/smaps_rollup").read_text()
    return int(re.search(r"AnonHugePages: +(\\d+) kB", text)[1]) // 1024


tree = tf_hsm.Tree.balanced(1 << 17, 2)
weights = tf.Variable(tf.ones([tree.num_rows, 128]))
optimizer = tf_hsm.optimizers.SGD(0.1)
optimizer.build([weights])
before = weights[-1].numpy(), megabytes()
tf_hsm.hierarchical_softmax_train_step(
    weights,
    None,
    tf.constant([5]),
    tf.ones([1, 128]),
    tree,
    optimizer,
)
assert (weights[-1].numpy() == before[0]).all()
print(megabytes() - before[1])
"""


def _gained(**environment):
    """The huge pages, in MB, that the step of the program has given."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return int(done.stdout)


@pytest.mark.skipif(
    not _THP.exists()
    or "[madvise]" not in _THP.read_text()
    or tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 1),
    reason="this system does not give huge pages to those who ask alone",
)
def test_variables_move_to_huge_pages():
    """Nearly all of 128 MB, unless the user does not want it."""
    assert _gained() > 100
    assert _gained(TF_HSM_HUGE_PAGES="0") < 20
