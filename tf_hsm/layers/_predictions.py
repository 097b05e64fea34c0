"""What a trained head answers."""

from tf_hsm.layers._head_answer import in_functional_models
from tf_hsm.layers._own_optimizer import without_gradient


class Predictions:
    """Methods of a `HeadLayer` that has a `WholeHead`, or one like it.

    They take inputs `[..., width]` like the layer, which must be built, and
    pass all else to the functions of the same names. `_head` is what `build`
    has made. A layer of other inputs has `hidden(inputs)`, which makes these of
    them.
    """

    _head = None

    @in_functional_models
    def log_probs(self, inputs, nodes=False):
        """Log-probabilities `[..., num_classes]` of all classes, in nats.

        See `tf_hsm.hierarchical_softmax_log_probs`.
        """
        log_probs = self._built_head().log_probs(self.hidden(inputs), nodes)
        return without_gradient(self, log_probs, "log_probs")

    @in_functional_models
    def log_prob(
        self, classes, inputs, nodes=False, allowed=None, renormalize=False
    ):
        """Log-probabilities of given classes `[..., C]`, in nats.

        See `tf_hsm.hierarchical_softmax_log_prob`.
        """
        return self._built_head().log_prob(
            classes,
            self.hidden(inputs),
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
        bounds=None,
        allowed=None,
        renormalize=False,
    ):
        """The k best classes: `(log_probs, classes)`, each `[..., k]`.

        See `tf_hsm.hierarchical_softmax_top_k`.
        """
        return self._built_head().top_k(
            self.hidden(inputs),
            k,
            beam_width,
            return_pruned,
            bounds=bounds,
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
            self.hidden(inputs),
            num_samples,
            seed,
            temperature,
            top_k,
            top_p,
            allowed=allowed,
        )

    def predict_class(self, inputs):
        """The most probable class of each input, `[...]` int64."""
        return self._built_head().best_class(self.hidden(inputs))

    def hidden(self, inputs):
        """The vectors `[..., width]` that inputs are to the rows."""
        return inputs

    def _built_head(self):
        self.check_built()
        return self._head
