"""Replicas of a head whose devices have other names or another number.

See tests/distribute/replicas_estimate_test.py for heads over replicas.
"""

import keras
import pytest

import tf_hsm

TREE = tf_hsm.Tree.two_level(9)
LAYERS = [
    tf_hsm.layers.HierarchicalSoftmax(TREE, devices=["CPU:0"]),
    tf_hsm.layers.AdaptiveSoftmax(
        9, cutoffs=[3], div_value=1, devices=["CPU:0"]
    ),
]
CUT = tf_hsm.estimation.head(TREE, shards=2, optimizer="sgd")


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_classes": 9, "shards": 7, "head_optimizer": "sgd"},
        {"body": "gru:8", "head": CUT},
        {"head": [LAYERS[0], "full"], "num_classes": 9},
        {"head": LAYERS[1]},
        {"body": keras.Sequential([keras.Input([3]), LAYERS[1]])},
    ],
)
def test_a_head_on_devices_has_no_replicas(arguments):
    arguments = {"body": None, "width": 3, "batch": 8, **arguments}
    tf_hsm.estimate(**arguments)
    with pytest.raises(
        ValueError, match="replicas is 8, but the head is cut over devices"
    ):
        tf_hsm.estimate(**arguments, replicas=8)
