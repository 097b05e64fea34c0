"""The cases of what GPU kernels must do: a check, and arguments by their names.

The place, a check's first argument, is not among them. The emulation takes its
time, and has fewer cases than a GPU.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import answer_cases as answers
from tests.support import (
    gpu_cases,
    label_tree_cases,
    step_cases,
    training,
    trees,
)
from tests.support import gpu_error_cases as errors
from tests.support.answer_cases import RESTRICTED, check_log_probs
from tests.support.evaluation import check_random_loss as check_loss
from tests.support.gpu_cases import DTYPES, SMOOTHED
from tests.support.pairs import all_pairs
from tests.support.references import FORESTS, PINNED
from tests.support.step_cases import check_steps
from tests.support.top_k_cases import SEARCHED, check_top_k
from tests.support.update_rules import ON_GPUS, OURS

TREES = [*trees.CATALOGUE, *PINNED]
INTEGERS = [np.int32, np.int64]
F4, F2 = np.float32, np.float16
# Names of forests, or of pinned trees, for the emulation.
_SOME_FORESTS = ["below three_levels", "below huffman_3"]
_HUFFMAN = "pinned huffman_203"


def cases(check, marks=(), in_pairs=False, **columns):
    """Returns cases of a check.

    Args:
        check: Takes a place and arguments.
        marks: The marks of pytest.
        in_pairs: Whether any two values of two arguments meet in a case;
            otherwise all combinations of values are cases.
        **columns: For each argument its values.
    """
    combine = all_pairs if in_pairs else itertools.product
    name = check.__name__.removeprefix("check_")
    return [
        pytest.param(
            check,
            dict(zip(columns, row, strict=True)),
            marks=marks,
            id=f"{name}-{i}-{row}",
        )
        for i, row in enumerate(combine(*columns.values()))
    ]


def _errors():
    """Cases of refused trees, and checks that take only a place."""
    names = "index", "value", "message", "name", "nodes"
    broken = [
        {"op": op, "array": array, **dict(zip(names, row, strict=False))}
        for (op, array), rows in errors.BROKEN_TREES.items()
        for row in rows
    ]
    checks = (
        gpu_cases.check_trees_are_told_apart,
        gpu_cases.check_two_threads,
        gpu_cases.check_pinned_or_not,
        label_tree_cases.check_wrong_labels,
        step_cases.check_a_step_keeps_what_was_read,
        step_cases.check_infinities,
        errors.check_rules_of_cpus,
        errors.check_refusals,
        answers.check_nan,
        answers.check_forged_paths,
        answers.check_one_root,
    )
    return [
        pytest.param(check, options, id=f"{check.__name__}-{i}")
        for i, (check, options) in enumerate(
            [
                *((errors.check_broken_trees, options) for options in broken),
                *((check, {}) for check in checks),
            ]
        )
    ]


def suite(is_emulated, needs_cublas=()):
    """Returns the cases for a GPU, or for its emulation.

    Args:
        is_emulated: Which of both.
        needs_cublas: The marks of cases that call cuBLAS.
    """

    def of(emulated, on_gpus):
        return emulated if is_emulated else on_gpus

    found = _errors()

    def add(check, **columns):
        found.extend(cases(check, **columns))

    add(
        check_loss,
        name=of(["two_level_7", "random", "only_children", PINNED[1]], TREES)
        + FORESTS,
        shape=of([(5, 3)], [(1, 1), (5, 3), (67, 129), (252, 50)]),
        dtype=DTYPES,
    )
    add(
        check_loss,
        name=["random", "flat", "one_huge_group"],
        shape=[(17, 33)],
        dtype=of([F4], DTYPES),
        graph=[True],
    )
    add(check_loss, name=of([], ["chain_10000"]), shape=[(3, 5)], dtype=DTYPES)
    smoothed = of(["only_children", _HUFFMAN, FORESTS[0]], [*PINNED, *FORESTS])
    add(
        check_loss,
        in_pairs=is_emulated,
        name=["random", "one_huge_group", *smoothed],
        shape=of([(17, 9)], [(5, 3), (252, 50)]),
        dtype=DTYPES,
        smoothed=SMOOTHED,
    )
    add(
        check_loss,
        name=["two_level_100", "random", "huffman_4ary", FORESTS[0]],
        shape=[(60, 9)],
        dtype=[np.float64],
        nodes=[True],
    )
    capped = {"logit_soft_cap": [None, 1.5], "z_loss": [0.25, 0.0]}
    add(
        check_loss,
        in_pairs=is_emulated,
        name=["flat"],
        shape=of([(17, 9), (300, 5)], [(5, 3), (252, 50)]),
        dtype=DTYPES,
        **capped,
    )
    add(
        check_loss,
        name=["random"],
        shape=[(20, 9)],
        dtype=of([F4], DTYPES),
        ignore_class=[-1, 3],
    )
    for leading in of([[], [2, 3], [3, 0]], [[], [0], [6], [2, 3], [3, 0]]):
        add(
            check_loss,
            name=["random"],
            shape=[(int(np.prod(leading)), 7)],
            dtype=[np.float64],
            leading_shape=[leading],
            has_biases=[True, False],
        )
    add(errors.check_bad_labels, dtype=of([F4], DTYPES), label_dtype=INTEGERS)
    add(
        errors.check_states,
        name=of(
            ["random", "two_level_7"],
            ["random", "two_level_100", "two_level_1013", "one_huge_group"],
        ),
        dtype=of([np.float64, F2], DTYPES),
    )
    stepped = of(
        ["random"],
        ["two_level_1013", "binary_37", "chain_50", "one_huge_group"],
    )
    batch = of((17, 3), (67, 33))
    add(
        check_steps,
        rule=ON_GPUS,
        tree=[*stepped, _HUFFMAN],
        shape=[batch],
        dtype=DTYPES,
        has_biases=[True, False],
    )
    add(
        check_steps,
        in_pairs=True,
        rule=ON_GPUS,
        tree=["random", _HUFFMAN, *_SOME_FORESTS],
        shape=[batch],
        dtype=DTYPES,
        make=[training.in_place, training.after_loss],
        label_smoothing=[0.0, 0.25],
        not_decayed=[None, ["biases"]],
        graph=[False, True],
    )
    add(
        check_steps,
        in_pairs=True,
        rule=ON_GPUS,
        tree=["flat"],
        shape=of([batch, (300, 5)], [batch]),
        dtype=DTYPES,
        has_biases=[True],
        make=[training.in_place, training.after_loss],
        **capped,
    )
    add(step_cases.check_two_steps, name=["two_level_1013", "label_tree"])
    label_trees = of(["flat", "random", "binary_37"], [*trees.CATALOGUE])
    add(
        label_tree_cases.check_loss,
        in_pairs=is_emulated,
        name=label_trees,
        dtype=DTYPES,
        make=[tf.Variable, tf.constant],
        graph=[False, True],
    )
    add(label_tree_cases.check_steps, rule=ON_GPUS, dtype=[np.float64, F4])
    add(
        label_tree_cases.check_answers,
        in_pairs=is_emulated,
        name=label_trees,
        dtype=SEARCHED,
        make=[tf.Variable, tf.constant],
    )
    add(
        gpu_cases.check_optimizer,
        in_pairs=True,
        rule=list(OURS),
        shape=[(9, 5), (30, 2, 6), (12,)],
        dtype=DTYPES,
        decay=[None, 0.1],
        graph=[False, True],
    )

    answered = of(["two_level_100", "random", "only_children"], TREES)
    for nodes, parameter in ((False, tf.Variable), (True, tf.constant)):
        add(
            check_log_probs,
            marks=needs_cublas,
            name=answered + of(["single_class", _HUFFMAN], []),
            shape=of([(5, 3)], [(1, 1), (5, 3), (67, 129)]),
            dtype=DTYPES,
            nodes=[nodes],
            parameter=[parameter],
        )
    add(
        check_log_probs,
        marks=needs_cublas,
        name=["random", "flat", "one_huge_group"],
        shape=[(35, 70)],
        dtype=[F4],
        nodes=[False],
        graph=[True],
    )
    add(
        check_log_probs,
        marks=needs_cublas,
        in_pairs=is_emulated,
        name=["flat"],
        shape=of([(5, 3)], [(67, 129)]),
        dtype=DTYPES,
        nodes=[False, True],
        logit_soft_cap=[0.5, 2.0],
    )
    add(
        check_log_probs,
        marks=needs_cublas,
        in_pairs=True,
        name=FORESTS,
        shape=[(7, 5)],
        dtype=DTYPES,
        nodes=[False, True],
        parameter=[tf.constant, tf.Variable],
        has_starts=[True, False],
    )
    add(
        answers.check_given_classes,
        name=of(["two_level_100", "random", "pinned chain_50"], TREES)
        + of(["below three_levels", "below ragged"], FORESTS),
        shape=of([(5, 3)], [(20, 33)]),
        dtype=DTYPES,
        label_dtype=INTEGERS,
    )
    searched = of(["two_level_100", "random", "single_class", PINNED[1]], TREES)
    add(check_top_k, name=FORESTS, dtype=SEARCHED, limit=[None, "bounds"])
    add(check_top_k, name=searched, dtype=SEARCHED, ties=[None, "equal rows"])
    add(
        check_top_k,
        name=searched,
        dtype=SEARCHED,
        chance=[0.0, 0.05, 0.5, 1.0],
        lists=["shared", "of each"],
    )
    drawn = [("two_level_100", F4), ("random", F2), (PINNED[1], F4)]
    drawn = of(drawn, [*itertools.product(TREES, SEARCHED)])
    drawn += [(n, F4) for n in of(_SOME_FORESTS, FORESTS)]
    doubles = of(["random", "below ragged"], [*TREES, *FORESTS])
    for options in RESTRICTED:
        of_doubles = [(name, np.float64) for name in doubles]
        for name, dtype in drawn + ([] if options else of_doubles):
            add(
                answers.check_sample,
                name=[name],
                dtype=[dtype],
                num_samples=[of(80, 5000)],
                **{option: [value] for option, value in options.items()},
            )
    add(
        answers.check_leading_shapes,
        marks=needs_cublas,
        leading=[[], [0], [2, 3], [3, 0]],
    )
    return found
