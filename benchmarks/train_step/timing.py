"""Times whole training steps side by side."""

import tensorflow as tf

from benchmarks.common import floors as common_floors
from benchmarks.common import implementations as common_implementations
from benchmarks.common import limits as common_limits
from benchmarks.common import machine, timing, workloads
from benchmarks.train_step import floors as train_step_floors
from benchmarks.train_step import limits as train_step_limits
from benchmarks.train_step import steps


def time_case(case, rule, settings):
    """Measures rates, floors and the steps of all implementations.

    To be called in a process of its own. The implementations share one set of
    weights, and ours one optimizer with its slots.

    Args:
      case: a `Case`.
      rule: one of `_train_steps.RULES`.
      settings: `_timing.Settings`, its phases not used.

    Returns:
      A dict that JSON can hold: "tree", "rates", "work", "floors" and "times":
      implementation -> {"ms", "samples_ms"} or {"refused"}.
    """
    machine.use_threads(settings.threads)
    limits = common_limits.of(settings)
    probe = common_floors.Probe(settings.threads, case.dtype)
    rates = [probe.sample()]
    tree = workloads.make_tree(case)
    rows = workloads.draw_labels(case, 1 + settings.repetitions)
    labels = [tf.constant(row) for row in rows]
    inputs = common_implementations.make_inputs(case)
    work = common_floors.work(tree, rows[1])
    bench = _Bench(case, rule, tree, work, rates[0], limits)

    times, turns = {}, {}
    for name in settings.implementations:
        step, refusal = bench.prepare(name)
        if refusal:
            times[name] = {"refused": refusal}
        else:
            # A first step takes memory, and longer than the next ones: it
            # must not be the one that tells how many turns fit.
            step(labels[0], inputs)
            times[name] = None  # Keeps the order.
            turns[name] = lambda turn, step=step: timing.seconds_of(
                step, labels[turn], inputs
            )
    samples = timing.interleave(
        turns, settings.repetitions, lambda: rates.append(probe.sample())
    )
    for name, seconds in samples.items():
        times[name] = timing.milliseconds(seconds)
    rates = common_floors.median(rates)
    floors = train_step_floors.floors(work, rule, case, rates)
    floors = {f"{passes}W": floor for passes, floor in floors.items()}
    return {
        **timing.conditions(tree, work, rates, floors),
        "times": times,
    }


class _Bench:
    """Prepares steps, on parameters and slots that are shared."""

    def __init__(self, case, rule, tree, work, rates, limits):
        self._case = case
        self._rule = rule
        self._tree = tree
        self._work = work
        self._rates = rates
        self._limits = limits
        self._parameters = None
        self._optimizers = {}

    def prepare(self, name):
        """Returns (step, None), or (None, why it is refused)."""
        case, rule, tree = self._case, self._rule, self._tree
        stock = steps.is_stock(name)
        parameters = slots = 0
        if self._parameters is None:
            parameters = common_implementations.parameter_bytes(
                tree.num_rows, case
            )
        if stock not in self._optimizers:
            slots = steps.slot_bytes(name, rule, tree.num_rows, case)
        refusal = self._limits.refusal(
            parameters + slots,
            train_step_limits.extra_bytes(name, rule, tree, case, self._work),
            train_step_limits.step_seconds(name, rule, tree, case, self._rates),
        )
        if refusal:
            return None, refusal
        self._limits.take(parameters + slots)
        if self._parameters is None:
            self._parameters = common_implementations.make_parameters(
                tree.num_rows, case
            )
        if stock not in self._optimizers:
            self._optimizers[stock] = steps.make_optimizer(
                name, rule, self._parameters
            )
        step = steps.make_step(
            name, self._optimizers[stock], self._parameters, tree, case
        )

        def run(labels, inputs):
            # All results are there once the losses are, and are freed on
            # return.
            step(labels, inputs)[0].numpy()

        return run, None
