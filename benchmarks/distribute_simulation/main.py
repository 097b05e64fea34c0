"""How a head scales over devices, before there are any: by simulated steps.

    bazel run //benchmarks:distribute_simulation
    bazel run //benchmarks:distribute_simulation -- --network=2.5e10

Tables and a picture. The first table has the steps of a tree over 1 to 1,024
devices, with labels that are drawn; the others are for more classes than fit
this machine, by formulae. Nothing is timed: the times are those of the cost
model, with the rates of the flags. docs/distribution.md says how to read them.
"""

from absl import app, flags

from benchmarks.common import count_flags, name_flags, units
from benchmarks.distribute_simulation import drawn, on_paper, plots
from tf_hsm import distribute
from tf_hsm.cost.model import CostModel

_CLASSES = flags.DEFINE_integer(
    "num_classes", 1_000_000, "Classes of the simulated tree.", lower_bound=2
)
_FANOUT = flags.DEFINE_integer(
    "fanout", 100, "Of its groups; 0 is for two levels.", lower_bound=0
)
_TOP = count_flags.define(
    "top", 1024, "About how many subtrees it is cut into."
)
_PAPER_CLASSES = flags.DEFINE_integer(
    "paper_classes", 1_000_000_000, "Classes on paper.", lower_bound=8
)
_WIDTH = count_flags.define("width", 300, "That of the inputs.")
_BATCHES = flags.DEFINE_list(
    "batches", ["400", "4096", "40000"], "Examples in a step."
)
_LABELS = name_flags.define(
    "labels", drawn.LABELS, "Labels; the worst are all in one shard."
)
_STEPS = count_flags.define("steps", 20, "Steps to simulate.")
_MAX_SHARDS = count_flags.define(
    "max_shards", 1024, "Where the powers of 2 end."
)
_SLOTS = flags.DEFINE_integer(
    "slots", 0, "Numbers of an optimizer for each weight.", lower_bound=0
)
_REPLICAS = flags.DEFINE_bool(
    "replicas",
    True,
    "Whether each device is a replica, with a part of the batch and a copy of "
    "the top; else one more device has the body and the top.",
)
_NETWORK = flags.DEFINE_float(
    "network",
    1.25e9,
    "Bytes a second into, and out of, each replica, or the device of the body.",
    lower_bound=1.0,
)
_BANDWIDTH = flags.DEFINE_float(
    "bandwidth",
    6e9,
    "Bytes a second that a device reads or writes.",
    lower_bound=1.0,
)
_SPEED = flags.DEFINE_float(
    "speed",
    1.0,
    "How many times as fast as two cores a device multiplies.",
    lower_bound=1e-6,
)
_PLOT = flags.DEFINE_string(
    "plot",
    "docs/distribution/simulation.png",
    "The .png file to draw, from where the command is called; none if empty.",
)


def _step_options():
    model = CostModel()
    return {
        "slots": _SLOTS.value,
        "network": _NETWORK.value,
        "bandwidth": _BANDWIDTH.value,
        "cost_model": CostModel(
            call=model.call,
            floor=0.0,
            weight=model.weight,
            logit=model.logit / _SPEED.value,
            product=model.product / _SPEED.value,
        ),
    }


def _shards():
    return [1 << i for i in range(_MAX_SHARDS.value.bit_length())]


def _simulate(batches):
    """Prints how long devices wait; returns all `Waiting`s."""
    tree = drawn.make_tree(_CLASSES.value, _FANOUT.value)
    results = []
    for labels in _LABELS.value:
        counts = drawn.counts_of(labels, tree.num_classes)
        for batch in batches:
            plan = distribute.plan(
                tree,
                **{"replicas" if _REPLICAS.value else "devices": 1},
                counts=counts,
                batch=batch,
                width=_WIDTH.value,
                top=_TOP.value,
                **_step_options(),
            )
            results += [
                drawn.waiting(plan.on(count), labels, counts, _STEPS.value)
                for count in _shards()
            ]
    print(
        f"{tree}, width {_WIDTH.value};\n"
        f"the top has {plan.layout.top.num_rows:,} rows, "
        f"{plan.cost.top.subtrees:,} subtrees are spread"
    )
    _print_table(
        "the share of the time in which the mean shard waits, by shards",
        results,
        lambda r: f"{100 * r.waiting:.0f}%",
    )
    _print_table(
        "rows scored by the fullest shard over the mean, by shards",
        results,
        lambda r: f"{r.largest:.2f}",
    )
    _print_table(
        "the same as the plan expects it, by shards",
        [r for r in results if r.expected is not None],
        lambda r: f"{r.expected:.2f}",
    )
    _print_table(
        "milliseconds of a step in which nothing overlaps, by shards",
        results,
        lambda r: _ms(r.milliseconds),
    )
    return results


def _print_table(title, results, cell):
    """Prints a row for labels and batch, with a cell for each `Waiting`."""
    print(f"\n{title}\n")
    print("| labels | batch | " + " | ".join(f"{s:,}" for s in _shards()), "|")
    print("|---" * (2 + len(_shards())) + "|")
    rows = {}
    for r in results:
        rows.setdefault((r.labels, r.batch), []).append(cell(r))
    for (labels, batch), cells in rows.items():
        print(f"| {labels} | {batch:,} | {' | '.join(cells)} |", flush=True)


def _on_paper(batch):
    """Prints what a step costs by formulae; returns lists of `Point`s."""
    results = {}
    for depth in (2, 3):
        fanout = on_paper.fanout_of(_PAPER_CLASSES.value, depth)
        step = distribute.Step.of(
            batch=batch,
            width=_WIDTH.value,
            dtype="float32",
            on_replicas=_REPLICAS.value,
            **_step_options(),
        )
        points = [
            on_paper.point(fanout, depth, count, step) for count in _shards()
        ]
        results[depth] = points
        print(
            f"\n{fanout**depth:,} classes in {depth} levels of groups of "
            f"{fanout:,}, width {_WIDTH.value}, {batch:,} examples, uniform "
            f"(worst: all in one shard)\n"
        )
        print(
            "| shards | bytes a device | top, ms | network, ms | mean shard, "
            "ms | slowest, ms | waiting | a step, ms | worst, ms |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for p in points:
            print(
                f"| {p.shards:,} | {units.of_bytes(p.num_bytes)} | "
                f"{_ms(p.top)} | {_ms(p.network)} | {_ms(p.mean)} | "
                f"{_ms(p.slowest)} | {100 * p.waiting:.0f}% | "
                f"{_ms(p.total)} | {_ms(p.total_of_worst)} |"
            )
    return results


def _ms(number):
    return units.of_seconds(number / 1e3)


def main(_):
    """Prints both tables, and draws the picture."""
    batches = [int(batch) for batch in _BATCHES.value]
    waitings = _simulate(batches)
    points = _on_paper(batches[-1])
    if _PLOT.value:
        path = plots.draw(_PLOT.value, waitings, points)
        print(path or "no plot: matplotlib is not installed", flush=True)


if __name__ == "__main__":
    app.run(main)
