"""Times whole training steps side by side."""

import functools

import tensorflow as tf

from benchmarks.common import case_bench, implementations, timing, workbench
from benchmarks.train_step import step_floors, steps


def time_case(case, rule, settings):
    """Measures rates, floors and the steps of all implementations.

    To be called in a process of its own. The implementations share one set of
    weights, and ours one optimizer with its slots; the model of `fit` has
    weights and slots of its own.

    Args:
      case: a `Case`.
      rule: one of `steps.RULES`.
      settings: `timing.Settings`.

    Returns:
      A dict that JSON can hold: what `CaseBench.facts` returns, and "times":
      implementation -> {"ms", "samples_ms"} or {"refused"}.
    """
    bench = case_bench.CaseBench(case, settings)

    def prepare(name):
        one = _prepare_fit if name == steps.IN_FIT else _prepare
        return one(bench, rule, name)

    def make_floors(rates):
        least = step_floors.floors(bench.work, rule, case, rates)
        return {f"{passes}W": floor for passes, floor in least.items()}

    times = bench.take_turns(prepare)
    return {**bench.facts(make_floors), "times": times}


def _prepare(bench, rule, name):
    """Returns (a function that times a step, None), or (None, the refusal)."""
    case, tree = bench.case, bench.tree
    part = steps.estimated(name, rule, tree, case)
    optimizer = workbench.Shared(
        ("optimizer", steps.is_stock(name)),
        part.slot_bytes,
        lambda parameters: steps.make_optimizer(name, rule, parameters),
    )

    def make_step(parameters, optimizer):
        step = steps.make_step(name, optimizer, parameters, tree, case)
        return functools.partial(timing.seconds_of, step)

    parameters = workbench.parameters(tree.num_rows, case)
    return bench.prepare([parameters, optimizer], part, make_step)


def _prepare_fit(bench, rule, name):
    case, tree = bench.case, bench.tree
    part = steps.estimated(name, rule, tree, case)
    model = workbench.Shared(
        "model",
        implementations.parameter_bytes(tree.num_rows, case) + part.slot_bytes,
        lambda: steps.make_model(rule, tree, case),
    )

    def make_step(model):
        model.make_train_function()  # what `fit` calls for each step

        def timed(labels, inputs):
            data = tf.data.Dataset.from_tensors((inputs, labels))
            return timing.seconds_of(model.train_function, iter(data))

        return timed

    return bench.prepare([model], part, make_step)
