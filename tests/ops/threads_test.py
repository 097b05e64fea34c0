"""Results are the same to the bit for any thread count and on every ISA run.

Losses and gradients, and what the training step writes, rounded at random too;
and all that a trained tree gives.
"""

import functools
import itertools
import re

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forked
from tests.support.step_cases import KEPT, kept_state
from tests.support.training import (
    states,
    step_from,
    variables_of,
    wide_problem,
)
from tests.support.update_rules import OPTIMIZERS, built


def measure(threads):
    """All results by name, and the ISA; in a process of its own."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    rng = np.random.default_rng(0)
    results = gradients(rng)
    steps, rounded = trained(rng)
    groups = {
        "result": results + steps,
        "rounded": rounded,
        "state": from_states(),
        "answer": answers(rng),
    }
    named = {
        f"{name}_{i}": array.numpy()
        for name, arrays in groups.items()
        for i, array in enumerate(arrays)
    }
    return named | {"isa": tf_hsm.cpu_isa()}


def gradients(rng):
    """Losses and gradients of several trees."""
    results = []
    for tree in (
        tf_hsm.Tree.two_level(3000),
        tf_hsm.Tree.balanced(700, 2),
        tf_hsm.Tree.huffman(1 / np.arange(1, 2000), branching=3),
        tf_hsm.Tree.balanced(4000, [3, 1000, 2]),
    ):
        w = tf.Variable(rng.normal(size=(tree.num_rows, 70)).astype(np.float32))
        x = tf.constant(rng.normal(size=(300, 70)).astype(np.float32))
        y = rng.integers(0, tree.num_classes, size=300)
        with tf.GradientTape() as tape:
            tape.watch(x)
            losses = tf_hsm.hierarchical_softmax_loss(w, None, y, x, tree)
        dw, dx = tape.gradient(losses, [w, x])
        results += [losses, dw.indices, dw.values, dx]
    return results


def trained(rng):
    """What steps in place give: of float32 and float64, and of bfloat16."""
    results, rounded = [], []
    trees = [
        tf_hsm.Tree.two_level(2000),
        tf_hsm.Tree.balanced(700, [2, 350]),
        tf_hsm.Tree.huffman(1 / np.arange(1, 500), branching=3),
    ]
    for i, make in enumerate(OPTIMIZERS.values()):
        # Each rule with each tree, and each type with both.
        for j, tree in enumerate(trees):
            dtype = ["float32", "bfloat16"][(i + j) % 2]
            initial = rng.normal(size=(tree.num_rows, 35))
            w = tf.Variable(tf.cast(initial, dtype))
            found = train_steps(tree, make(), w, rng)
            v = tf.Variable(tf.cast(rng.normal(size=(150, 35)), dtype))
            found += embedding_steps(
                tree, make(), w, v, rng, lambda: rng.integers(0, 150, size=4000)
            )
            (results if dtype == "float32" else rounded).extend(
                tf.cast(r, tf.float32) for r in found
            )
        # Vectors that are read in place: of many work items, and of one.
        for tree in (
            tf_hsm.Tree.huffman(1 / np.arange(1, 500)),
            tf_hsm.Tree.huffman(1 / np.arange(1, 500), pinned=True),
        ):
            w = tf.Variable(rng.normal(size=(tree.num_weight_rows, 35)))
            v = tf.Variable(rng.normal(size=(3000, 35)))
            results += embedding_steps(
                tree,
                make(),
                w,
                v,
                rng,
                lambda: np.minimum(*rng.integers(0, 3000, size=(2, 4000))),
            )
    return results, rounded


def from_states():
    """What two steps from one state give, for all kinds of losses."""
    found = []
    for (i, name), (j, dtype) in itertools.product(
        enumerate(KEPT), enumerate((np.float32, ml_dtypes.bfloat16))
    ):
        tree, (batch, width), _ = KEPT[name]
        batch = batch if name == "label_tree" else 300
        problem = wide_problem(tree, (batch, width), dtype)
        variables = variables_of(problem, dtype)
        rule = list(OPTIMIZERS)[(i + j) % len(OPTIMIZERS)]
        optimizer = built(rule, variables)
        state = kept_state(name, variables, problem)
        for moved in (False, True):
            step_from(
                state,
                variables,
                problem.upstream,
                optimizer,
                moved=moved,
                stochastic_rounding=dtype != np.float32,
            )
        arrays = tf.nest.flatten(states(optimizer, variables))
        found += [tf.cast(array, tf.float32) for array in arrays]
    return found


def train_steps(tree, optimizer, w, rng):
    """Two steps; losses and gradient of the last, variables and slots."""
    b = tf.Variable(tf.zeros(tree.num_rows, w.dtype))
    optimizer.build([w, b])
    for _ in range(2):
        x = tf.constant(rng.normal(size=(200, 35)).astype(np.float32))
        y = rng.integers(0, tree.num_classes, size=200)
        with tf.GradientTape() as tape:
            tape.watch(x)
            losses = tf_hsm.hierarchical_softmax_train_step(
                w, b, y, x, tree, optimizer, loss_weights=1.0, seed=3
            )
        dx = tape.gradient(losses, x)
    # A copy of the weights, because they go on changing.
    slots = [s.value for one in (w, b) for s in optimizer.slots(one)]
    return [losses, dx, tf.identity(w), b, *slots]


def embedding_steps(tree, optimizer, w, v, rng, draw):
    """Two steps on the vectors that are drawn; as `train_steps`."""
    optimizer.build([w, v])
    for _ in range(2):
        losses = tf_hsm.hierarchical_softmax_embedding_train_step(
            w,
            None,
            rng.integers(0, tree.num_classes, size=4000),
            v,
            draw(),
            tree,
            optimizer,
            seed=3,
        )
    slots = [s.value for one in (w, v) for s in optimizer.slots(one)]
    return [losses, w, v, *slots]


def answers(rng):
    """What a trained tree is asked for."""
    results = []
    for tree in (
        tf_hsm.Tree.two_level(2000),
        tf_hsm.Tree.huffman(1 / np.arange(1, 900), branching=3),
    ):
        w = tf.Variable(rng.normal(size=(tree.num_rows, 40)).astype(np.float32))
        x = tf.constant(0.2 * rng.normal(size=(150, 40)).astype(np.float32))
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = tf_hsm.hierarchical_softmax_log_probs(w, None, x, tree)
        upstream = rng.normal(size=values.shape).astype(np.float32)
        results += [values, *tape.gradient(values, [x, w], upstream)]
        classes = rng.integers(tree.num_classes, size=(150, 20))
        results.append(
            tf_hsm.hierarchical_softmax_log_prob(w, None, classes, x, tree)
        )
        for beam in (None, 20):
            results += tf_hsm.hierarchical_softmax_top_k(
                w, None, x, tree, 9, beam_width=beam
            )
        for options in ({}, {"top_k": 50}, {"top_p": 0.5}):
            results.append(
                tf_hsm.hierarchical_softmax_sample(
                    w, None, x, tree, 100, seed=1, **options
                )
            )
    return results


@functools.cache
def run(threads, isa=""):
    """Calls `measure` in a process that runs an ISA, by default the best."""
    return forked.run(measure, threads, environment={"TF_HSM_CPU_ISA": isa})


def refusal():
    """The error of the ISA that the environment has."""
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        tf_hsm.cpu_isa()
    return str(error.value)


@functools.cache
def names():
    """The ISAs of this machine, as the answer to a wrong name has them."""
    answer = forked.run(refusal, environment={"TF_HSM_CPU_ISA": "mmx"})
    found = re.search(r"'mmx', but this machine can run: (\w+(, \w+)*)", answer)
    assert found, answer
    return found[1].split(", ")


def test_unknown_isa():
    """A wrong name is answered with the right ones."""
    assert names()[0] == "baseline"
    assert set(names()) <= {"baseline", "avx2", "avx512", "amx"}


def test_one_thread_and_many():
    """One, two and five threads give the same bits."""
    one = run(1)
    # By default the best ISA runs.
    for many in (run(2, names()[-1]), run(5)):
        assert many.keys() == one.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, many[name])


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512", "amx"])
def test_every_isa(isa):
    """Each is chosen by the environment and differs by rounding only."""
    if isa not in names():
        pytest.skip(f"this machine cannot run {isa}")
    best, other = run(1), run(2, isa)
    assert other["isa"] == isa
    for name, array in other.items():
        # Where rounding decides, an answer may be another one.
        if name == "isa" or name.startswith(("answer", "state")):
            continue
        # To bfloat16 at random: the last bit may be another one.
        tolerance = 2.0**-6 if name.startswith("rounded") else 1e-4
        np.testing.assert_allclose(
            array, best[name], rtol=tolerance, atol=tolerance
        )
