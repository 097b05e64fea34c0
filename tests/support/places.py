"""Where the kernels of a test run: here, on a GPU, or above an emulation."""

import dataclasses

import tensorflow as tf

# What has a GPU kernel.
OPS = [
    "ResourceTfHsmTrainStep",
    "ResourceTfHsmLabelTreeTrainStep",
    "ResourceTfHsmLossStep",
    "ResourceTfHsmSparseUpdate",
]
for _name in (
    "Loss",
    "LossGrad",
    "LabelTreeLoss",
    "LogProbs",
    "LogProbsGrad",
    "ClassLogProbs",
    "TopK",
    "Sample",
):
    OPS += [f"TfHsm{_name}", f"ResourceTfHsm{_name}"]


@dataclasses.dataclass(frozen=True)
class Place:
    """Where kernels run.

    Attributes:
        device: For `tf.device`; results must be on it.
        label: The kernels' label, or None for kernels without one.
    """

    device: str
    label: str | None = None

    def run(self, function, graph=False):
        """Calls `function`, in a tf.function if `graph` or a label is set."""

        def labelled():
            if self.label is not None:
                # What Graph._kernel_label_map sets for the time of a `with`.
                tf.compat.v1.get_default_graph()._op_to_kernel_label_map.update(
                    dict.fromkeys(OPS, self.label)
                )
            return function()

        with tf.device(self.device):
            if graph or self.label is not None:
                return tf.function(labelled)()
            return function()


HERE = Place("CPU:0")
