"""The benchmark of whole training steps, on small sizes."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.common import floors, implementations, workloads
from benchmarks.train_step import step_floors, steps
from tests.support.benchmarks import figures_of, measure_here
from tf_hsm import Tree

_IN_PLACE, _IN_FIT, _THEN_OPTIMIZER, _GATHER_STOCK = steps.IMPLEMENTATIONS


def _case(num_classes=1000, batch=32, dtype="float32"):
    return workloads.Case(
        "tiny", "two_level", "uniform", dtype, num_classes, batch
    )


def test_it_measures_times_and_memory(monkeypatch, tmp_path):
    measure_here(monkeypatch)
    (case,) = figures_of(
        "train_step",
        tmp_path,
        "--workload=tiny",
        "--labels=zipf",
        "--optimizer=lazy_adam",
        "--repetitions=3",
    )["cases"]
    assert (case["labels"], case["optimizer"]) == ("zipf", "lazy_adam")
    result_of = case["result"]
    times, floors = result_of["times"], result_of["floors"]
    assert tuple(times) == steps.IMPLEMENTATIONS
    for time in times.values():
        assert len(time["samples_ms"]) == 3
        assert time["ms"] == sorted(time["samples_ms"])[1] > 0
    assert floors["3W"]["ms"] >= floors["2W"]["ms"] > 0
    rows = result_of["tree"]["rows"]
    assert set(result_of["memory"]) == {*steps.IMPLEMENTATIONS} - {_IN_FIT}
    for held in result_of["memory"].values():
        assert held["parameters"] == 4 * 17 * rows
        assert held["slots"] == 2 * 4 * 17 * rows


def _stepped(name, rule, case, labels):
    """Returns losses, dx, changes of weights, and biases after some steps."""
    tree = workloads.make_tree(case)
    before = np.random.default_rng(1).random((tree.num_rows, 16), np.float32)
    parameters = implementations.Parameters(
        tf.Variable(before), tf.Variable(tf.zeros([tree.num_rows]))
    )
    optimizer = steps.make_optimizer(name, rule, parameters)
    step = steps.make_step(name, optimizer, parameters, tree, case)
    inputs = implementations.make_inputs(case)
    for row in labels:
        losses, input_gradient = step(tf.constant(row), inputs)
    change = parameters.weights.numpy() - before
    assert abs(change).max() > 1e-5
    return [losses, input_gradient, change, parameters.biases]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("sgd", [_THEN_OPTIMIZER, _GATHER_STOCK]),
        # Keras never sums repeated rows, and its Adam moves all rows.
        ("adagrad", [_THEN_OPTIMIZER]),
        ("rowwise_adagrad", [_THEN_OPTIMIZER]),
        ("lazy_adam", [_THEN_OPTIMIZER]),
    ],
)
def test_what_is_compared_does_the_same(rule, names):
    case = _case()
    labels = workloads.draw_labels(case, 3)
    expected = _stepped(_IN_PLACE, rule, case, labels)
    for name in names:
        result = _stepped(name, rule, case, labels)
        for one, other in zip(expected, result, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=5e-7)


def test_the_floor_counts_weights_slots_and_inputs():
    case = _case(num_classes=100, batch=100)
    work = floors.work(Tree.two_level(100), np.arange(100))
    # 110 rows, 16 wide: 7,040 bytes of weights; the inputs are 6,400.
    rates = floors.Rates(flops=1e15, read=1e6, read_write=2e6)
    for rule, slots in [
        ("sgd", 0),
        ("rowwise_adagrad", 440),
        ("adagrad", 7040),
        ("lazy_adam", 14080),
    ]:
        least = step_floors.floors(work, rule, case, rates)
        for passes in (2, 3):
            moved = passes * 7040 + 2 * slots + 3 * 6400
            np.testing.assert_allclose(least[passes].seconds, moved / 2e6)
            assert least[passes].memory_share == 1
    # 100 examples score 10 rows at both levels.
    rates = floors.Rates(flops=1e3, read=1e9, read_write=2e9)
    floor = step_floors.floors(work, "adagrad", case, rates)[3]
    np.testing.assert_allclose(floor.seconds, 2 * 6 * 1000 * 16 / 1e3)
    assert floor.memory_share < 1e-6
