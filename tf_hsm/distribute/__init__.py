"""One head on several devices.

The tree of a head is cut: a small top stays with the body of the model, and the
subtrees below it are spread over devices, GPUs of a machine or tasks of a
cluster. Each example passes the top, and the device that has its label's
subtree. Weights, their gradients and the slots of optimizers never leave their
device: the inputs of the head go there, losses and the gradient of the inputs
come back.

>>> with tf.distribute.MirroredStrategy().scope():  # a shard on each replica
...     head = tf_hsm.layers.HierarchicalSoftmax(
...         tree, devices="replicas", optimizer="rowwise_adagrad")

An `AdaptiveSoftmax` takes the same argument, and gives each replica some of its
tails. Or, for one process that calls all shards,

>>> head = tf_hsm.layers.HierarchicalSoftmax(
...     tree, devices=["GPU:0", "GPU:1"], optimizer="rowwise_adagrad")

The replicas may belong to several workers, under
`tf.distribute.MultiWorkerMirroredStrategy`: `save` writes their checkpoints,
and `workers_explained` names a worker that is lost.

`plan` makes the cut, and says what each device will have and do; `checkpoint`
is for `tf.train.Checkpoint`, where each device writes and reads its own rows.
`connect` makes the tasks of a cluster devices, each of which
`python -m tf_hsm cluster_task` runs.
"""

from tf_hsm.distribute.checkpoints import checkpoint, copy_weights
from tf_hsm.distribute.cluster import Cluster, LostServerError
from tf_hsm.distribute.cut_plan import Plan, plan
from tf_hsm.distribute.plan_cost import PlanCost, ShardCost
from tf_hsm.distribute.plan_layout import Shard
from tf_hsm.distribute.planned_step import Step
from tf_hsm.distribute.saving import save
from tf_hsm.distribute.servers import connect
from tf_hsm.distribute.workers import LostWorkerError, workers_explained

__all__ = [
    "Cluster",
    "LostServerError",
    "LostWorkerError",
    "Plan",
    "PlanCost",
    "Shard",
    "ShardCost",
    "Step",
    "checkpoint",
    "connect",
    "copy_weights",
    "plan",
    "save",
    "workers_explained",
]
