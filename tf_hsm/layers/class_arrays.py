"""Options of an objective that are arrays with a number for each class."""

import numbers

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree import files

# The options that a config holds packed.
PACKED = ("class_weights", "smoothing_prior")


def pack(array):
    """Returns `[N]` float64 as JSON can hold it; None stays None."""
    return None if array is None else files.pack(array.view(np.int64))


def unpacked(config):
    """Returns a layer's config with the arrays that `get_config` has packed.

    Layers of earlier versions have none.
    """
    arrays = {
        name: files.unpack(config[name]).view(np.float64)
        for name in PACKED
        if config.get(name) is not None
    }
    return {**config, **arrays}


def as_prior(prior, num_classes):
    """Returns the counts of a smoothing prior as `[N]` float64."""
    try:
        counts = _checks.check_counts(prior, num_classes)
    except ValueError as error:
        raise ValueError(f"smoothing_prior: {error}") from error
    if not counts.any():
        raise ValueError(
            "smoothing_prior: all counts are zero; give at least one class more"
        )
    return counts.astype(np.float64)


def as_class_weights(weights, num_classes):
    """Returns class weights as `[N]` float64."""
    given = _checks.by_class("class_weights", weights, num_classes, missing=1)
    given = np.asarray(given)
    for c, weight in enumerate(given if given.dtype == object else []):
        if not isinstance(weight, numbers.Real):
            raise TypeError(
                f"the weight of class {c} in class_weights is {weight!r}; it "
                "must be a number"
            )
    array = given.astype(np.float64)
    if array.shape != (num_classes,):
        raise ValueError(
            f"class_weights must be one for each class, [{num_classes}], but "
            f"their shape is {list(array.shape)}"
        )
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        c = int(np.argmax(wrong))
        raise ValueError(
            f"the weight of class {c} in class_weights is {array[c]}; it must "
            "be finite and not negative"
        )
    array.setflags(write=False)
    return array
