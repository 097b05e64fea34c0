"""Measures the machine that this process runs on, and remembers the figures."""

import dataclasses
import json
import os
import pathlib
import platform
import re
import sys
import tempfile

import tensorflow as tf

from tf_hsm.estimation import machine_rates, machine_sheets, machine_times
from tf_hsm.estimation.cost_model_calibration import calibrate_cost_model
from tf_hsm.estimation.machine_type import Machine

_FILE = pathlib.Path("tf_hsm") / "machine.json"
_HERE = "measured here"
_SAMPLES = 5  # of the rates; their medians count
_COST_WIDTH = 256  # of `calibrate_cost_model`
_COST_REPETITIONS = 3


def calibrate(*, refresh=False, verbose=False):
    """Measures what the CPU of this machine does in a second.

    It takes about ten seconds, on the threads that TensorFlow uses, and should
    have the machine for itself. The figures are kept in the user's cache folder
    (`$XDG_CACHE_HOME`, else `~/.cache`) for the same CPU, number of CPUs and
    threads, and versions of TensorFlow and of this package. `tf_hsm.estimate`
    takes them from there.

    Args:
      refresh: whether to measure again what is known.
      verbose: whether to print what is measured.

    Returns:
      A `Machine`.
    """
    machine = None if refresh else cached()
    if machine is None:
        machine = _measure(print if verbose else lambda *_: None)
        _remember(machine)
    return machine


def cached():
    """Returns the `Machine` that was measured here, or None."""
    values = _read().get(_key())
    try:
        return values and Machine.from_dict({**values, "source": _HERE})
    except (TypeError, ValueError):  # of another hand
        return None


def quick():
    """Measures products and memory for about a second; remembers nothing.

    Returns:
      A `Machine`. What takes longer to measure follows the rates: the machine
      of two cores that is the default has it at its own.
    """
    usual = machine_sheets.MACHINES[machine_sheets.DEFAULT]
    with tf.device("CPU:0"):
        probe = machine_rates.Probe(_threads(), "float32")
        rates = machine_rates.median([probe.sample() for _ in range(2)])
    slower = usual.flops["float32"] / rates.flops
    thinner = usual.read_write / rates.read_write
    model = usual.cost_model
    return dataclasses.replace(
        usual,
        name=f"{_cpu()}, {_threads()} threads",
        flops={dtype: rate / slower for dtype, rate in usual.flops.items()},
        read=rates.read,
        read_write=rates.read_write,
        fresh=usual.fresh / thinner,
        softmax=usual.softmax * slower,
        memory=_memory(),
        cost_model=dataclasses.replace(
            model,
            weight=model.weight * thinner,
            logit=model.logit * slower,
            product=model.product * slower,
        ),
        source="measured here for a second; --machine=here takes ten",
    )


def _memory():
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _measure(say):
    threads = _threads()
    say("matrix products, and streams through memory")
    with tf.device("CPU:0"):
        probe = machine_rates.Probe(threads, "float32")
        rates = [probe.sample() for _ in range(_SAMPLES)]
        rates = machine_rates.median(rates)
        flops = {"float32": rates.flops}
        for dtype in ("bfloat16", "float64"):
            flops[dtype] = machine_times.product_rate(dtype)
        del probe
        say("kernels, and memory that is new")
        times = machine_times.measure(rates.flops, rates.read_write)
        say("trees")
        cost_model = calibrate_cost_model(
            width=_COST_WIDTH, repetitions=_COST_REPETITIONS
        )
    machine = Machine(
        name=f"{_cpu()}, {threads} threads",
        flops=flops,
        read=rates.read,
        read_write=rates.read_write,
        memory=_memory(),
        cost_model=cost_model,
        source=_HERE,
        **times,
    )
    say(machine)
    return machine


def _key():
    # The package imports this module, which must not import it, nor run an op:
    # users may set the threads later.
    package = sys.modules[__name__.partition(".")[0]]
    return ", ".join(
        [
            _cpu(),
            f"{len(os.sched_getaffinity(0))} CPUs",
            f"{_threads()} threads",
            f"TensorFlow {tf.__version__}",
            # It has another allocator, and other products.
            f"oneDNN {os.environ.get('TF_ENABLE_ONEDNN_OPTS', 'by default')}",
            f"tf_hsm {package.__version__}",
        ]
    )


def _threads():
    """The threads of TensorFlow's kernels."""
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    return threads or len(os.sched_getaffinity(0))


def _cpu():
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    found = re.search(r"model name\s*: (.*)", text)
    return found[1] if found else platform.machine()


def _path():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / _FILE


def _read():
    """Returns what the file holds: by key, the numbers of a machine."""
    try:
        values = json.loads(_path().read_text())
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _remember(machine):
    """Adds to the file, in one rename; without a folder to write, does not."""
    path, values = _path(), _read() | {_key(): machine.to_dict()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, delete=False
        ) as file:
            file.write(json.dumps(values, indent=2) + "\n")
        os.replace(file.name, path)
    except OSError:
        pass
