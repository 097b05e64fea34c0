"""Label smoothing of a layer, evenly or towards a prior."""

import functools

import numpy as np

from tf_hsm import _checks
from tf_hsm.runtime import arguments
from tf_hsm.runtime.tree_tensors import array_tensors
from tf_hsm.tree import files


class LabelSmoothing:
    """`label_smoothing` and `smoothing_prior` of `HierarchicalSoftmax`."""

    def set_smoothing(self, label_smoothing, smoothing_prior):
        """Keeps the two arguments, once the layer has a tree.

        Raises:
          TypeError: `label_smoothing` is no number.
          ValueError: it is not in [0, 1]; the prior is not one finite number of
            at least 0 for each class, or all are 0; or there is one, but no
            smoothing.
        """
        self.label_smoothing = arguments.share(
            "label_smoothing", label_smoothing
        )
        self.smoothing_prior = None
        if smoothing_prior is not None:
            if not self.label_smoothing:
                raise ValueError(
                    "smoothing_prior is for a label_smoothing above 0, but "
                    "that is 0; set it, or leave out the prior"
                )
            self.smoothing_prior = _as_counts(smoothing_prior, self.num_classes)

    @functools.cached_property
    def smoothing_shares(self):
        """`[R]` float32, the prior of the rows."""
        shares = self.tree.row_shares(self.smoothing_prior)
        return shares.astype(np.float32)

    def smoothing_options(self):
        """The arguments of the loss in training."""
        if not self.label_smoothing:
            return {}
        options = {"label_smoothing": self.label_smoothing}
        if self.smoothing_prior is not None:
            (options["smoothing_prior"],) = array_tensors(
                self, ["smoothing_shares"], self.kernel
            )
        return options

    def smoothing_config(self, num_classes):
        """Those of `get_config` for this many classes.

        In the prior, new ones have the mean of all others.
        """
        prior = self.smoothing_prior
        if prior is not None:
            new = np.full(num_classes - self.num_classes, prior.mean())
            prior = files.pack(np.concatenate([prior, new]).view(np.int64))
        return {
            "label_smoothing": self.label_smoothing,
            "smoothing_prior": prior,
        }


def with_prior(config):
    """A config of `get_config` with the prior as the layer takes it.

    Layers of earlier versions have none.
    """
    packed = config.get("smoothing_prior")
    if packed is None:
        return config
    prior = files.unpack(packed).view(np.float64)
    return {**config, "smoothing_prior": prior}


def _as_counts(prior, num_classes):
    """The prior as `[N]` float64."""
    try:
        counts = _checks.check_counts(prior, num_classes)
    except ValueError as error:
        raise ValueError(f"smoothing_prior: {error}") from error
    if not counts.any():
        raise ValueError(
            "smoothing_prior: all counts are zero; give at least one class more"
        )
    return counts.astype(np.float64)
