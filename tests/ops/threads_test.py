"""Results are the same to the bit for any thread count and on every ISA run.

All that the ops give, and what their steps write, rounded at random too.
"""

import functools
import itertools
import re

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import tf_hsm
from tests.support import forked, point_calls
from tests.support.random_calls import INFERENCE, LOSSES, STEPS, valid_call

ON_ARRAYS = ("count_keys", *point_calls.OPS)
TREES = ["wide_2100", "huffman_31", "flat_70", "pinned_40", "forest_33"]


def measure(threads):
    """All results by name, and the ISA; in a process of its own."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    results = {"isa": tf_hsm.cpu_isa()}
    for op, tree, seed in itertools.product(
        (*ON_ARRAYS, *INFERENCE, *LOSSES, *STEPS), TREES, range(4)
    ):
        if op.startswith("label_tree") and tree.startswith(("pin", "forest")):
            continue
        # So many labels that they are sorted in parts.
        batch = 300 if op in INFERENCE else 2500
        dtype = [np.float32, ml_dtypes.bfloat16][seed % 2]
        rng = np.random.default_rng(seed)
        on_variables = op not in ON_ARRAYS
        call = valid_call(op, on_variables, rng, dtype, tree, (batch,), 35)
        held = call.variables()
        for i, array in enumerate(tf.nest.flatten([call.run(held), held])):
            if hasattr(array, "dtype") and array.dtype != tf.variant:
                results[f"{op} {tree} {seed} {i}"] = np.array(array)
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
        if name == "isa" or array.dtype.kind == "i":
            continue
        # So may the last bit of bfloat16 that is rounded at random; and steps
        # divide by small numbers.
        is_rough = array.dtype != np.float32 or name.startswith(STEPS)
        tolerance = 2.0**-6 if is_rough else 1e-4
        np.testing.assert_allclose(
            array.astype(np.float32),
            best[name].astype(np.float32),
            rtol=tolerance,
            atol=tolerance,
        )
