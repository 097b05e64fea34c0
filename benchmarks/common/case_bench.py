"""A case on this machine: its steps take turns, beside the machine's rates."""

import tensorflow as tf

import tf_hsm
from benchmarks.common import (
    floors,
    implementations,
    limits,
    machine,
    timing,
    workbench,
    workloads,
)


class CaseBench:
    """The tree, labels and inputs of a case, for steps that share them.

    To be made in a process of its own.

    Attributes:
      case: the `Case`.
      tree: its tree.
      work: `floors.Work` of a batch.
    """

    def __init__(self, case, settings):
        """Draws labels for each turn, and for one before to warm up."""
        machine.use_threads(settings.threads)
        self.case, self.tree = case, workloads.make_tree(case)
        self._settings = settings
        self._bench = workbench.Workbench(limits.of(settings))
        self._probe = floors.Probe(settings.threads, case.dtype)
        self._rates = [self._probe.sample()]
        labels = workloads.draw_labels(case, 1 + settings.repetitions)
        self._labels = [tf.constant(row) for row in labels]
        self._inputs = implementations.make_inputs(case)
        self.work = floors.work(self.tree, labels[1])

    def prepare(self, shared, part, make_step):
        """Makes a step as `Workbench.prepare` does; `part` estimates it."""
        rates, dtype = self._rates[0], self.case.dtype
        return self._bench.prepare(
            shared,
            limits.step_bytes(part),
            limits.step_seconds(part, rates, dtype),
            make_step,
        )

    def take_turns(self, prepare):
        """Times the implementations of the settings side by side.

        Args:
          prepare: a function of a name; returns what `prepare` above does, the
            step being a function of labels and inputs that returns seconds.

        Returns:
          Name -> {"ms", "samples_ms"} or {"refused"}.
        """
        times, turns = {}, {}
        for name in self._settings.implementations:
            timed, refusal = prepare(name)
            times[name] = {"refused": refusal}  # Keeps the order.
            if timed:
                turns[name] = lambda turn, timed=timed: timed(
                    self._labels[turn], self._inputs
                )
        samples = timing.interleave(
            turns,
            self._settings.repetitions,
            lambda: self._rates.append(self._probe.sample()),
        )
        for name, seconds in samples.items():
            times[name] = timing.milliseconds(seconds)
        return times

    def facts(self, make_floors):
        """Returns what the JSON file says beside the times.

        Args:
          make_floors: a function of `floors.Rates` that returns a dict of
            `floors.Floor`.
        """
        tree, work, rates = self.tree, self.work, floors.median(self._rates)
        return {
            "tree": {
                "rows": tree.num_rows,
                "groups": tree.num_groups,
                "depth": tree.depth,
            },
            "isa": tf_hsm.cpu_isa(),
            "rates": rates._asdict(),
            "work": {
                "scored_rows": work.scored_rows.tolist(),
                "touched_rows": work.touched_rows.tolist(),
                "touched_groups": work.touched_groups,
            },
            "floors": {
                name: {
                    "ms": 1000 * floor.seconds,
                    "memory_share": floor.memory_share,
                }
                for name, floor in make_floors(rates).items()
            },
        }
