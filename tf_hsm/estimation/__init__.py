"""What a model will need in training: memory, operations, time.

`estimate` is a function, and has the others as attributes.
"""

from tf_hsm.estimation.api import estimate
from tf_hsm.estimation.body import recurrent, transformer
from tf_hsm.estimation.heads import head
from tf_hsm.estimation.inverse import largest
from tf_hsm.estimation.machine import Machine
from tf_hsm.estimation.machines import MACHINES
from tf_hsm.estimation.result import Comparison, Estimate
from tf_hsm.runtime.private_keras import without_values

estimate.transformer = transformer
estimate.recurrent = recurrent
estimate.head = head
estimate.largest = largest
estimate.machines = MACHINES
estimate.without_values = without_values

__all__ = ["Comparison", "Estimate", "Machine", "estimate"]
