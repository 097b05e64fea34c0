"""Times the implementations of a case side by side."""

import functools

from benchmarks.common import (
    case_bench,
    floors,
    implementations,
    limits,
    timing,
    workbench,
)

_OPTIMIZERS = {"forward": None, "forward_backward": "sgd", "sgd": "sgd"}


def time_case(case, settings):
    """Measures rates, floors and all phases of all implementations.

    To be called in a process of its own.

    Returns:
      A dict that JSON can hold: what `CaseBench.facts` returns, and "phases":
      implementation -> phase -> {"ms", "samples_ms"} or {"refused"}.
    """
    bench = case_bench.CaseBench(case, settings)
    phases = {name: {} for name in settings.implementations}
    for phase in implementations.PHASES:
        times = bench.take_turns(functools.partial(_prepare, bench, phase))
        for name, time in times.items():
            phases[name][phase] = time

    def make_floors(rates):
        sizes, itemsize = case.sizes, implementations.itemsize(case)
        work = bench.work
        return floors.floors(work, sizes.batch, sizes.width, itemsize, rates)

    return {**bench.facts(make_floors), "phases": phases}


def _prepare(bench, phase, name):
    """Returns (a function that times a step, None), or (None, the refusal)."""
    case, tree = bench.case, bench.tree
    implementation = implementations.IMPLEMENTATIONS[name]
    what = {"ours": "hierarchical", "chunked": "full"}.get(name, name)
    part = limits.estimated(what, tree, case, _OPTIMIZERS[phase])
    if phase == "forward":
        part = part.untrained()
    parameters = workbench.parameters(
        implementation.num_rows(tree), case, not implementation.sparse
    )

    def make_step(made):
        step = implementations.make_step(
            implementation.loss, phase, made, tree, case
        )
        return functools.partial(timing.seconds_of, step)

    return bench.prepare([parameters], part, make_step)
