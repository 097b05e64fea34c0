"""Times whole training steps side by side."""

import functools

import tensorflow as tf

from benchmarks.common import (
    floors,
    implementations,
    limits,
    machine,
    timing,
    workbench,
    workloads,
)
from benchmarks.train_step import step_floors, steps


def time_case(case, rule, settings):
    """Measures rates, floors and the steps of all implementations.

    To be called in a process of its own. The implementations share one set of
    weights, and ours one optimizer with its slots.

    Args:
      case: a `Case`.
      rule: one of `steps.RULES`.
      settings: `timing.Settings`, its phases not used.

    Returns:
      A dict that JSON can hold: "tree", "rates", "work", "floors" and "times":
      implementation -> {"ms", "samples_ms"} or {"refused"}.
    """
    machine.use_threads(settings.threads)
    bench = workbench.Workbench(limits.of(settings))
    probe = floors.Probe(settings.threads, case.dtype)
    rates = [probe.sample()]
    tree = workloads.make_tree(case)
    rows = workloads.draw_labels(case, 1 + settings.repetitions)
    labels = [tf.constant(row) for row in rows]
    inputs = implementations.make_inputs(case)
    work = floors.work(tree, rows[1])

    times, turns = {}, {}
    for name in settings.implementations:
        prepare = _prepare_fit if name == steps.IN_FIT else _prepare
        timed, refusal = prepare(bench, case, rule, tree, rates[0], name)
        if refusal:
            times[name] = {"refused": refusal}
        else:
            # A first step takes memory, and longer than the next ones: it
            # must not be the one that tells how many turns fit.
            timed(labels[0], inputs)
            times[name] = None  # Keeps the order.
            turns[name] = lambda turn, timed=timed: timed(labels[turn], inputs)
    samples = timing.interleave(
        turns, settings.repetitions, lambda: rates.append(probe.sample())
    )
    for name, seconds in samples.items():
        times[name] = timing.milliseconds(seconds)
    rates = floors.median(rates)
    least = {
        f"{passes}W": floor
        for passes, floor in step_floors.floors(work, rule, case, rates).items()
    }
    return {
        **timing.conditions(tree, work, rates, least),
        "times": times,
    }


def _prepare(bench, case, rule, tree, rates, name):
    """Returns (a function that times a step, None), or (None, the refusal)."""
    part = steps.estimated(name, rule, tree, case)
    optimizer = workbench.Shared(
        ("optimizer", steps.is_stock(name)),
        part.slot_bytes,
        lambda parameters: steps.make_optimizer(name, rule, parameters),
    )

    def make_step(parameters, optimizer):
        step = steps.make_step(name, optimizer, parameters, tree, case)

        def run(labels, inputs):
            # All results are there once the losses are, and are freed on
            # return.
            step(labels, inputs)[0].numpy()

        return functools.partial(timing.seconds_of, run)

    return bench.prepare(
        [workbench.parameters(tree.num_rows, case), optimizer],
        limits.step_bytes(part),
        limits.step_seconds(part, rates, case.dtype),
        make_step,
    )


def _prepare_fit(bench, case, rule, tree, rates, name):
    """Does the same for a model, which has weights of its own."""
    part = steps.estimated(name, rule, tree, case)
    num_bytes = implementations.parameter_bytes(tree.num_rows, case)
    model = workbench.Shared(
        "model",
        num_bytes + part.slot_bytes,
        lambda: steps.make_model(rule, tree, case),
    )

    def make_step(model):
        model.make_train_function()  # what `fit` calls for each step

        def timed(labels, inputs):
            data = tf.data.Dataset.from_tensors((inputs, labels))
            return timing.seconds_of(model.train_function, iter(data))

        return timed

    return bench.prepare(
        [model],
        limits.step_bytes(part),
        limits.step_seconds(part, rates, case.dtype),
        make_step,
    )
