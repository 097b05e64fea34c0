"""Times the implementations of a case side by side."""

import collections

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

_OPTIMIZERS = {"forward": None, "forward_backward": "sgd", "sgd": "sgd"}


def time_case(case, settings):
    """Measures rates, floors and all phases of all implementations.

    To be called in a process of its own.

    Returns:
      A dict that JSON can hold: "tree", "rates", "work", "floors" and
      "phases": implementation -> phase -> {"ms", "samples_ms"} or {"refused"}.
    """
    machine.use_threads(settings.threads)
    bench = workbench.Workbench(limits.of(settings))
    probe = floors.Probe(settings.threads, case.dtype)
    rates = [probe.sample()]
    tree = workloads.make_tree(case)
    inputs = implementations.make_inputs(case)
    rows = workloads.draw_labels(case, 1 + settings.repetitions)
    labels = [tf.constant(row) for row in rows]
    phases = collections.defaultdict(dict)
    for phase in implementations.PHASES:
        turns = {}
        for name in settings.implementations:
            step, refusal = _prepare(bench, case, tree, rates[0], name, phase)
            if refusal:
                phases[name][phase] = {"refused": refusal}
            else:
                turns[name] = lambda turn, step=step: timing.seconds_of(
                    step, labels[turn], inputs
                )
        samples = timing.interleave(
            turns, settings.repetitions, lambda: rates.append(probe.sample())
        )
        for name, seconds in samples.items():
            phases[name][phase] = timing.milliseconds(seconds)
    rates, work = floors.median(rates), floors.work(tree, rows[1])
    sizes, itemsize = case.sizes, implementations.itemsize(case)
    least = floors.floors(work, sizes.batch, sizes.width, itemsize, rates)
    return {
        **timing.conditions(tree, work, rates, least),
        "phases": dict(phases),
    }


def _prepare(bench, case, tree, rates, name, phase):
    """Returns (step, None), or (None, why the step is refused)."""
    implementation = implementations.IMPLEMENTATIONS[name]
    part = _estimated(name, phase, tree, case)
    parameters = workbench.parameters(
        implementation.num_rows(tree), case, not implementation.sparse
    )
    return bench.prepare(
        [parameters],
        limits.step_bytes(part),
        limits.step_seconds(part, rates, case.dtype),
        lambda made: implementations.make_step(
            implementation.loss, phase, made, tree, case
        ),
    )


def _estimated(name, phase, tree, case):
    what = {"ours": "hierarchical", "chunked": "full"}.get(name, name)
    part = limits.estimated(what, tree, case, _OPTIMIZERS[phase])
    return part.untrained() if phase == "forward" else part
