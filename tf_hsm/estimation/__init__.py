"""What a model will need in training: memory, operations, time.

`estimate` is `tf_hsm.estimate`. `head`, `recurrent` and `transformer` describe
a model that does not exist yet, and `largest` finds the largest one that fits.
`machines` are known by name; `calibrate` measures this one.
"""

from tf_hsm.estimation.api import estimate
from tf_hsm.estimation.body import recurrent, transformer
from tf_hsm.estimation.body.shapes import without_values
from tf_hsm.estimation.cost_model_calibration import calibrate_cost_model
from tf_hsm.estimation.heads import head
from tf_hsm.estimation.inverse import largest
from tf_hsm.estimation.machine import Machine
from tf_hsm.estimation.machine_calibration import calibrate
from tf_hsm.estimation.machine_sheets import MACHINES as machines
from tf_hsm.estimation.result import Comparison, Estimate

__all__ = [
    "Comparison",
    "Estimate",
    "Machine",
    "calibrate",
    "calibrate_cost_model",
    "estimate",
    "head",
    "largest",
    "machines",
    "recurrent",
    "transformer",
    "without_values",
]
