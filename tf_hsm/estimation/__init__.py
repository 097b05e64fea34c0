"""What a model will need in training: memory, operations, time.

`tf_hsm.estimate` takes a body and a head. `head`, `recurrent` and `transformer`
describe them before they exist. `largest` finds the largest model that fits.
`machines` are known by name; `calibrate` measures this one.
"""

from tf_hsm.estimation.body import recurrent, transformer
from tf_hsm.estimation.body.shapes import without_values
from tf_hsm.estimation.calibration import calibrate
from tf_hsm.estimation.heads import head
from tf_hsm.estimation.inverse import largest
from tf_hsm.estimation.machine import MACHINES as machines
from tf_hsm.estimation.machine import Machine
from tf_hsm.estimation.result import Comparison, Estimate

__all__ = [
    "Comparison",
    "Estimate",
    "Machine",
    "calibrate",
    "head",
    "largest",
    "machines",
    "recurrent",
    "transformer",
    "without_values",
]
