"""A plan, but for its tree, as a dict that JSON can hold."""

import zlib

import numpy as np

from tf_hsm.distribute.below import SubtreeLoads
from tf_hsm.distribute.planned_step import Step
from tf_hsm.tree import files

_VERSION = 1
# Fields of a step in configs of earlier versions.
_RENAMED = {"dim": "width", "memory": "bandwidth"}


def to_config(plan):
    """Returns the dict, which is small where units are alike."""
    return {
        "version": _VERSION,
        "devices": list(plan.devices),
        "unit_rows": files.pack(plan.layout.unit_rows),
        "unit_loads": plan.layout.unit_loads.map(_pack)._asdict(),
        "first_units": plan.layout.first_units.tolist(),
        "step": plan.step.get_config(),
    }


def from_config(config):
    """Returns the arguments of `Plan` but the tree, as a dict.

    Raises:
      ValueError: the config is malformed.
    """
    try:
        if config["version"] != _VERSION:
            raise ValueError(
                f"it has version {config['version']!r}; this tf_hsm reads "
                f"version {_VERSION}"
            )
        return {
            "devices": config["devices"],
            "unit_rows": files.unpack(config["unit_rows"]),
            "unit_loads": SubtreeLoads(**config["unit_loads"]).map(_unpack),
            "first_units": config["first_units"],
            "step": Step.from_config(
                {_RENAMED.get(k, k): v for k, v in config["step"].items()}
            ),
        }
    except (
        ValueError,
        TypeError,
        LookupError,
        OverflowError,
        AttributeError,
        zlib.error,
    ) as error:
        raise ValueError(
            f"not a config of tf_hsm.distribute.Plan.get_config: {error!r}"
        ) from error


def _pack(numbers):
    return files.pack(np.ascontiguousarray(numbers).view(np.int64))


def _unpack(field):
    return files.unpack(field).view(np.float64)
