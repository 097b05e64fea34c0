"""What a trained head answers."""

from tf_hsm.layers._head_answer import in_functional_models
from tf_hsm.runtime import gradients


class Predictions:
    """Methods of a `HeadLayer` that has a `WholeHead`, or one like it.

    They take inputs `[..., width]` like the layer, which must be built, and
    pass all else to the functions of the same names. `_head` is what `build`
    has made.
    """

    _head = None

    @in_functional_models
    def log_probs(self, inputs, nodes=False):
        """Log-probabilities `[..., num_classes]` of all classes, in nats.

        See `tf_hsm.hierarchical_softmax_log_probs`.
        """
        log_probs = self._built_head().log_probs(inputs, nodes)
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
    def log_prob(
        self, classes, inputs, nodes=False, allowed=None, renormalize=False
    ):
        """Log-probabilities of given classes `[..., C]`, in nats.

        See `tf_hsm.hierarchical_softmax_log_prob`.
        """
        return self._built_head().log_prob(
            classes,
            inputs,
            nodes=nodes,
            allowed=allowed,
            renormalize=renormalize,
        )

    @in_functional_models
    def top_k(
        self,
        inputs,
        k,
        beam_width=None,
        return_pruned=False,
        allowed=None,
        renormalize=False,
    ):
        """The k best classes: `(log_probs, classes)`, each `[..., k]`.

        See `tf_hsm.hierarchical_softmax_top_k`.
        """
        return self._built_head().top_k(
            inputs,
            k,
            beam_width,
            return_pruned,
            allowed=allowed,
            renormalize=renormalize,
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
        allowed=None,
    ):
        """Classes `[..., num_samples]` drawn by their probabilities.

        See `tf_hsm.hierarchical_softmax_sample`.
        """
        return self._built_head().sample(
            inputs,
            num_samples,
            seed,
            temperature,
            top_k,
            top_p,
            allowed=allowed,
        )

    def predict_class(self, inputs):
        """The most probable class of each input, `[...]` int64."""
        return self._built_head().best_class(inputs)

    def steps_in_loss_alone(self):
        """Whether no gradient trains the layer, but its own loss does."""
        return False

    def _built_head(self):
        self.check_built()
        return self._head
