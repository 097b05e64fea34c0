"""The cases of what GPU kernels must do: check, arguments after the place.

`on_gpus` makes the cases for a GPU, and `EMULATED` has those for its
emulation, which takes its time.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import (
    gpu_cases,
    gpu_error_cases,
    gpu_forest_cases,
    gpu_inference_cases,
    gpu_step_cases,
    training,
    trees,
)
from tests.support.gpu_cases import DTYPES, SMOOTHED
from tests.support.gpu_inference_cases import RESTRICTED, SEARCHED
from tests.support.pairs import all_pairs
from tests.support.references import FORESTS, PINNED
from tests.support.update_rules import ON_GPUS

TREES = [*trees.CATALOGUE, *PINNED]
INTEGERS = [np.int32, np.int64]
# Checks that take only a place.
CHECKS = [
    gpu_cases.check_trees_are_told_apart,
    gpu_cases.check_two_threads,
    gpu_cases.check_pinned_or_not,
    gpu_cases.check_labels_that_are_rows,
    gpu_step_cases.check_a_step_keeps_what_was_read,
    gpu_step_cases.check_steps_from_one_state,
    gpu_step_cases.check_weight_decay,
    gpu_error_cases.check_no_width,
    gpu_error_cases.check_rules_of_cpus,
    gpu_inference_cases.check_no_width,
    gpu_inference_cases.check_nan,
    gpu_inference_cases.check_refusals,
    gpu_inference_cases.check_forged_paths,
    gpu_forest_cases.check_no_starts,
    gpu_forest_cases.check_one_root,
]


def cases(check, *values, rows=(), marks=(), **options):
    """Cases of a check.

    Args:
        check: Takes a place, arguments and options.
        *values: For each argument its values; all combinations are cases. One
            that is a tuple of tuples stands for as many arguments.
        rows: More cases, each a tuple of arguments.
        marks: The marks of pytest.
        **options: The options of all these cases.
    """
    found = [*rows]
    if values:
        for each in itertools.product(*values):
            parts = [v if type(v) is tuple else (v,) for v in each]
            found.append(tuple(itertools.chain(*parts)))
    name = check.__name__.removeprefix("check_")
    return [
        pytest.param(check, row, options, marks=marks, id=f"{name}-{i}-{row}")
        for i, row in enumerate(found)
    ]


def train_steps(values, **options):
    """Cases of steps: values of rule, name, shape, dtype and has_biases."""
    return cases(gpu_step_cases.check_train_step, *values, **options)


def steps_from_states(shape):
    """Every rule, type and amount of smoothing, in pairs."""
    names = ["random", "pinned huffman_203", "below huffman_3"]
    drawn = all_pairs(ON_GPUS, names, DTYPES, [0.0, 0.25])
    return [
        each
        for rule, name, dtype, smoothing in drawn
        for each in train_steps(
            [[rule], [name], [(shape,)], [dtype], [True]],
            label_smoothing=smoothing,
            make=training.after_loss,
        )
    ]


_BOTH = [
    *cases(
        gpu_error_cases.check_broken_trees, rows=gpu_error_cases.BROKEN_TREES
    ),
    *cases(
        gpu_inference_cases.check_broken_trees,
        rows=gpu_inference_cases.BROKEN_TREES,
    ),
    *[each for check in CHECKS for each in cases(check, rows=[()])],
]

EMULATED = [
    *_BOTH,
    *cases(
        gpu_cases.check_loss,
        ["two_level_7", "random", "only_children", "pinned binary_37"],
        [((5, 3),)],
        DTYPES,
    ),
    *cases(gpu_cases.check_loss, FORESTS, [((7, 5),)], DTYPES),
    *cases(
        gpu_cases.check_loss,
        ["flat", "one_huge_group"],
        [((17, 33),)],
        [np.float32],
    ),
    *cases(
        gpu_cases.check_loss,
        [
            ("random", (17, 9), np.float64),
            ("one_huge_group", (17, 9), np.float32),
            ("only_children", (17, 9), np.float32),
            ("pinned huffman_203", (17, 9), np.float32),
            (FORESTS[0], (17, 9), np.float16),
        ],
        [False],
        SMOOTHED,
    ),
    *cases(
        gpu_cases.check_shapes, [([],), ([2, 3],), ([3, 0],)], [True, False]
    ),
    *cases(gpu_error_cases.check_bad_labels, [np.float32], INTEGERS),
    *cases(gpu_cases.check_ignored, [np.float32], [-1, 3]),
    *train_steps([ON_GPUS, ["random"], [((5, 3),)], DTYPES, [True, False]]),
    *train_steps(
        [
            ON_GPUS,
            ["below three_levels", "below huffman_3", "pinned huffman_203"],
            [((17, 3),)],
            [np.float32, np.float16],
            [True],
        ]
    ),
    *train_steps(
        [
            ["lazy_adam"],
            ["random", "pinned huffman_203"],
            [((17, 3),)],
            [np.float32],
            [True],
        ],
        label_smoothing=0.25,
    ),
    *steps_from_states((17, 3)),
    *cases(
        gpu_error_cases.check_states,
        rows=[
            ("random", np.float32),
            ("two_level_100", np.float16),
            ("two_level_7", np.float64),
        ],
    ),
    *cases(
        gpu_inference_cases.check_log_probs,
        [
            "two_level_100",
            "random",
            "only_children",
            "single_class",
            "pinned huffman_203",
        ],
        [((5, 3),)],
        DTYPES,
        [(False, tf.Variable), (True,)],
    ),
    *cases(
        gpu_inference_cases.check_log_probs,
        ["flat", "one_huge_group"],
        [((35, 70),)],
        [np.float32],
        [False],
    ),
    *cases(
        gpu_inference_cases.check_given_classes,
        ["two_level_100", "random", "pinned chain_50"],
        [((5, 3),)],
        DTYPES,
        [6],
        INTEGERS,
    ),
    *cases(
        gpu_inference_cases.check_allowed,
        ["two_level_100", "random", "single_class", "pinned binary_37"],
        SEARCHED,
        [1, 7],
    ),
    *cases(
        gpu_inference_cases.check_top_k,
        ["two_level_100", "random", "single_class", "pinned binary_37"],
        [((5, 3),)],
        SEARCHED,
        [tf.Variable],
        [None, "ties"],
    ),
    *[
        each
        for options in RESTRICTED
        for each in cases(
            gpu_inference_cases.check_sample,
            [
                ("two_level_100", np.float32),
                ("random", np.float16),
                ("pinned binary_37", np.float32),
                *[("random", np.float64)][: not options],
            ],
            [80],
            **options,
        )
    ],
    *cases(
        gpu_inference_cases.check_leading_shapes,
        rows=[([],), ([0],), ([2, 3],), ([3, 0],)],
    ),
    *cases(
        gpu_inference_cases.check_log_probs,
        FORESTS,
        [((7, 5),)],
        DTYPES,
        [(False,), (True, tf.Variable)],
        has_starts=True,
    ),
    *cases(
        gpu_inference_cases.check_log_probs,
        FORESTS,
        [((7, 5),)],
        [np.float32],
        [(True, tf.Variable)],
    ),
    *cases(
        gpu_forest_cases.check_given_classes,
        ["below three_levels", "below ragged"],
        DTYPES,
        INTEGERS,
    ),
    *cases(gpu_forest_cases.check_top_k, FORESTS, SEARCHED),
    *[
        each
        for options in RESTRICTED
        for each in cases(
            gpu_forest_cases.check_sample,
            [
                ("below three_levels", np.float32),
                ("below huffman_3", np.float16),
                *[("below ragged", np.float64)][: not options],
            ],
            **options,
        )
    ],
    *cases(
        gpu_forest_cases.check_broken_roots, rows=gpu_forest_cases.BROKEN_ROOTS
    ),
]


def on_gpus(needs_cublas):
    """Cases for a GPU; the mark is for what calls cuBLAS."""
    return [
        *_BOTH,
        *cases(
            gpu_cases.check_loss,
            [*TREES, *FORESTS],
            [((1, 1),), ((5, 3),), ((67, 129),), ((252, 50),)],
            DTYPES,
        ),
        *cases(
            gpu_cases.check_loss,
            ["random", "one_huge_group", *PINNED, *FORESTS],
            [((5, 3),), ((252, 50),)],
            DTYPES,
            [False],
            SMOOTHED,
        ),
        *cases(gpu_cases.check_loss, ["random"], [((17, 33),)], DTYPES, [True]),
        *cases(gpu_cases.check_loss, ["chain_10000"], [((3, 5),)], DTYPES),
        *cases(
            gpu_cases.check_shapes,
            [([],), ([6],), ([2, 3],), ([0],), ([3, 0],)],
            [True, False],
        ),
        *cases(gpu_error_cases.check_bad_labels, DTYPES, INTEGERS),
        *cases(gpu_cases.check_ignored, DTYPES, [-1, 3]),
        *train_steps(
            [
                ON_GPUS,
                [
                    "two_level_1013",
                    "binary_37",
                    "chain_50",
                    "one_huge_group",
                    "pinned huffman_203",
                ],
                [((67, 33),)],
                DTYPES,
                [True, False],
            ]
        ),
        *train_steps(
            [
                ["lazy_adam"],
                ["two_level_1013", "pinned huffman_203"],
                [((67, 33),)],
                DTYPES,
                [True],
            ],
            label_smoothing=0.25,
        ),
        *train_steps(
            [["lazy_adam"], ["random"], [((20, 9),)], [np.float32], [True]],
            graph=True,
        ),
        *steps_from_states((67, 33)),
        *cases(
            gpu_error_cases.check_states,
            ["random", "two_level_100", "two_level_1013", "one_huge_group"],
            DTYPES,
        ),
        *cases(
            gpu_inference_cases.check_log_probs,
            TREES,
            [((1, 1),), ((5, 3),), ((67, 129),)],
            DTYPES,
            [(False, tf.Variable), (True,)],
            marks=needs_cublas,
        ),
        *cases(
            gpu_inference_cases.check_log_probs,
            rows=[("random", (17, 33), np.float32, False)],
            marks=needs_cublas,
            graph=True,
        ),
        *cases(
            gpu_inference_cases.check_given_classes,
            TREES,
            [((20, 33),)],
            DTYPES,
            [7],
            INTEGERS,
        ),
        *cases(
            gpu_inference_cases.check_allowed,
            TREES,
            SEARCHED,
            [1, 7],
            [tf.Variable],
        ),
        *cases(
            gpu_inference_cases.check_top_k,
            TREES,
            [((20, 33),)],
            SEARCHED,
            [tf.Variable],
            [None, "ties"],
        ),
        *[
            each
            for options in RESTRICTED
            for each in cases(
                gpu_inference_cases.check_sample,
                TREES,
                [*SEARCHED, *[np.float64][: not options]],
                [5000],
                **options,
            )
        ],
        *cases(
            gpu_inference_cases.check_leading_shapes,
            rows=[([],), ([0],), ([2, 3],), ([3, 0],)],
            marks=needs_cublas,
        ),
        *cases(
            gpu_inference_cases.check_log_probs,
            FORESTS,
            [((7, 5),)],
            DTYPES,
            [(False,), (True, tf.Variable)],
            marks=needs_cublas,
            has_starts=True,
        ),
        *cases(
            gpu_forest_cases.check_given_classes, FORESTS, DTYPES, [np.int64]
        ),
        *cases(gpu_forest_cases.check_top_k, FORESTS, SEARCHED),
        *[
            each
            for options in RESTRICTED
            for each in cases(
                gpu_forest_cases.check_sample, FORESTS, [np.float32], **options
            )
        ],
    ]
