"""The machine as it was while something else was timed."""

import dataclasses

from benchmarks.common import machine
from tf_hsm.cost.model import CostModel
from tf_hsm.estimation import machine_calibration, machine_rates


class SampledMachine:
    """Rates that are sampled beside every step, as others use the machine too.

    A shared machine is slower at times. What `calibrate` finds thereafter is
    brought to the medians of the samples.
    """

    def __init__(self):
        """Prepares the samples."""
        self._probe = machine_rates.Probe(machine.num_cpus(), "float32")
        self._rates = []

    def sample(self):
        """Takes a sample; to be called before each step that is timed."""
        self._rates.append(self._probe.sample())

    def calibrated(self):
        """Returns the `Machine` of that time, in about ten seconds."""
        rates = machine_rates.median(self._rates)
        here = machine_calibration.calibrate(refresh=True)
        slower = here.rate("float32") / rates.flops
        model = {
            name: slower * ms
            for name, ms in dataclasses.asdict(here.cost_model).items()
        }
        return dataclasses.replace(
            here,
            flops={dtype: f / slower for dtype, f in here.flops.items()},
            read=rates.read,
            read_write=rates.read_write,
            fresh=here.fresh * rates.read_write / here.read_write,
            op=here.op * slower,
            transpose=here.transpose * slower,
            cost_model=CostModel(**model),
        )
