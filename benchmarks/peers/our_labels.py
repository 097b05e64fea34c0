"""A label tree of ours, trained on given examples."""

import keras

import tf_hsm
from benchmarks.common import machine
from benchmarks.peers import label_runs

# An accumulator that begins near zero suits gradients of any scale.
_RATE, _ACCUMULATOR = 0.5, 1e-6
_BATCH, _EPOCHS = 100, 10


class Implementation(label_runs.Implementation):
    """See `common.peer_process`; `label_trees` makes the spec."""

    def __init__(self, spec):
        """Reads the examples."""
        machine.use_threads(spec["threads"])
        self._tree = tf_hsm.Tree.load(spec["tree"])
        super().__init__(spec, tf_hsm.__version__)

    def _train(self):
        keras.utils.set_random_seed(0)
        head = tf_hsm.layers.LabelTree(
            self._tree,
            kernel_initializer="zeros",
            optimizer=tf_hsm.optimizers.Adagrad(
                _RATE, initial_accumulator_value=_ACCUMULATOR
            ),
        )
        inputs, labels = self.data["train_inputs"], self.data["train_labels"]
        model = keras.Sequential([keras.Input([inputs.shape[1]]), head])
        model.compile("sgd", loss=head.loss)
        model.fit(inputs, labels, _BATCH, _EPOCHS, verbose=0)
        return head

    def _find(self, head):
        found = head.top_k(self.data["test_inputs"], 5).classes
        return found.numpy().tolist()
