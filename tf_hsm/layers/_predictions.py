"""What a trained head answers."""

from tf_hsm.layers._head_answer import in_functional_models
from tf_hsm.ops.log_probs import (
    hierarchical_softmax_log_prob,
    hierarchical_softmax_log_probs,
)
from tf_hsm.ops.sample import hierarchical_softmax_sample
from tf_hsm.ops.top_k import best_class, hierarchical_softmax_top_k
from tf_hsm.runtime import gradients


class Predictions:
    """Methods of a `HeadLayer` with a `kernel`, a `bias` or None, and a `tree`.

    They take inputs `[..., width]` like the layer, which must be built, and
    pass all else to the functions of the same names.
    """

    @in_functional_models
    def log_probs(self, inputs, nodes=False):
        """Log-probabilities `[..., num_classes]` of all classes, in nats.

        See `tf_hsm.hierarchical_softmax_log_probs`.
        """
        log_probs = hierarchical_softmax_log_probs(
            *self._parameters(), inputs, self.tree, nodes
        )
        if not self.steps_in_loss_alone():
            return log_probs
        return gradients.refused(
            log_probs,
            f"{self.name}: a gradient of log_probs would not train the layer, "
            "whose own optimizer makes its steps in its own loss; leave out "
            "the layer's optimizer, or set trainable=False for the gradient "
            "of the inputs alone",
        )

    @in_functional_models
    def log_prob(self, classes, inputs):
        """Log-probabilities of given classes `[..., C]`, in nats.

        See `tf_hsm.hierarchical_softmax_log_prob`.
        """
        return hierarchical_softmax_log_prob(
            *self._parameters(), classes, inputs, self.tree
        )

    @in_functional_models
    def top_k(self, inputs, k, beam_width=None, return_pruned=False):
        """The k best classes: `(log_probs, classes)`, each `[..., k]`.

        See `tf_hsm.hierarchical_softmax_top_k`.
        """
        return hierarchical_softmax_top_k(
            *self._parameters(), inputs, self.tree, k, beam_width, return_pruned
        )

    @in_functional_models
    def sample(
        self,
        inputs,
        num_samples,
        seed=None,
        temperature=1.0,
        top_k=None,
        top_p=None,
    ):
        """Classes `[..., num_samples]` drawn by their probabilities.

        See `tf_hsm.hierarchical_softmax_sample`.
        """
        return hierarchical_softmax_sample(
            *self._parameters(),
            inputs,
            self.tree,
            num_samples,
            seed,
            temperature,
            top_k,
            top_p,
        )

    def predict_class(self, inputs):
        """The most probable class of each input, `[...]` int64."""
        return best_class(*self._parameters(), inputs, self.tree)

    def steps_in_loss_alone(self):
        """Whether no gradient trains the layer, but its own loss does."""
        return False

    def _parameters(self):
        self.check_built()
        return self.kernel, self.bias
