"""The cases of what GPU kernels must do: check, arguments after the place.

`on_gpus` makes the cases for a GPU, and `EMULATED` has those for its
emulation, which takes its time.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.support import answer_cases as answers
from tests.support import gpu_cases, step_cases, training, trees
from tests.support import gpu_error_cases as errors
from tests.support.answer_cases import RESTRICTED, check_log_probs
from tests.support.evaluation import check_random_loss as check_loss
from tests.support.gpu_cases import DTYPES, SMOOTHED
from tests.support.pairs import all_pairs
from tests.support.references import FORESTS, PINNED
from tests.support.top_k_cases import SEARCHED, check_top_k
from tests.support.update_rules import ON_GPUS

TREES = [*trees.CATALOGUE, *PINNED]
INTEGERS = [np.int32, np.int64]
# Checks that take only a place.
CHECKS = [
    gpu_cases.check_trees_are_told_apart,
    gpu_cases.check_two_threads,
    gpu_cases.check_pinned_or_not,
    step_cases.check_a_step_keeps_what_was_read,
    step_cases.check_infinities,
    errors.check_rules_of_cpus,
    errors.check_refusals,
    answers.check_nan,
    answers.check_forged_paths,
    answers.check_one_root,
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
    return cases(step_cases.check_train_step, *values, **options)


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


def draws(names_and_dtypes, doubles, count):
    """Cases of draws, restricted in each way, or in none and of doubles too."""
    return [
        each
        for options in RESTRICTED
        for each in cases(
            answers.check_sample,
            [*names_and_dtypes, *doubles[: 0 if options else None]],
            [count],
            **options,
        )
    ]


F4, F2 = np.float32, np.float16
_BOTH = [
    *cases(errors.check_broken_trees, rows=errors.BROKEN_TREES),
    *[each for check in CHECKS for each in cases(check, rows=[()])],
    *cases(
        check_loss,
        ["two_level_100", "random", "huffman_4ary", FORESTS[0]],
        [((60, 9),)],
        [np.float64],
        nodes=True,
    ),
    *cases(step_cases.check_two_steps, ["two_level_1013"]),
]


def shapes(leading_shapes):
    """Losses of inputs of any leading shape, with biases and without."""
    return [
        each
        for leading in leading_shapes
        for has_biases in (True, False)
        for each in cases(
            check_loss,
            rows=[("random", (int(np.prod(leading)), 7), np.float64)],
            leading_shape=leading,
            has_biases=has_biases,
        )
    ]


def ignored(dtypes):
    """Losses where some labels count for nothing."""
    return [
        each
        for label in (-1, 3)
        for each in cases(
            check_loss, ["random"], [((20, 9),)], dtypes, ignore_class=label
        )
    ]


def allowed(names, dtypes):
    """The best classes among all, and among some."""
    return [
        each
        for chance in (None, 0.0, 0.05, 0.5, 1.0)
        for lists in ("shared", "of each")[: None if chance else 1]
        for each in cases(
            check_top_k, names, dtypes, chance=chance, lists=lists
        )
    ]


def best(names, names_of_forests):
    """The best classes: of ties, among allowed ones, and above bounds."""
    return [
        *allowed(names, SEARCHED),
        *cases(check_top_k, names, SEARCHED, [(None, "equal rows")]),
        *cases(check_top_k, names_of_forests, SEARCHED, [None, "bounds"]),
    ]


STARTED = [(False,), (True, tf.Variable)]
LEADING = [([],), ([0],), ([2, 3],), ([3, 0],)]
_SMALL = ["two_level_100", "random", "single_class", "pinned binary_37"]
_STEPPED = ["below three_levels", "below huffman_3", "pinned huffman_203"]
_KINDS = ["two_level_100", "random", "only_children", "single_class"]
_SMOOTHED = [
    ("random", (17, 9), np.float64),
    ("one_huge_group", (17, 9), F4),
    ("only_children", (17, 9), F4),
    ("pinned huffman_203", (17, 9), F4),
    (FORESTS[0], (17, 9), F2),
]
_OF_FORESTS = ["below three_levels", "below ragged"]
_DRAWN = [
    *(("two_level_100", F4), ("random", F2), ("pinned binary_37", F4)),
    *(("below three_levels", F4), ("below huffman_3", F2)),
]

EMULATED = [
    *_BOTH,
    *cases(
        check_loss,
        ["two_level_7", "random", "only_children", "pinned binary_37"],
        [((5, 3),)],
        DTYPES,
    ),
    *cases(check_loss, FORESTS, [((7, 5),)], DTYPES),
    *cases(check_loss, ["flat", "one_huge_group"], [((17, 33),)], [F4]),
    *cases(check_loss, _SMOOTHED, [(s,) for s in SMOOTHED]),
    *shapes([[], [2, 3], [3, 0]]),
    *cases(errors.check_bad_labels, [F4], INTEGERS),
    *ignored([F4]),
    *train_steps([ON_GPUS, ["random"], [((5, 3),)], DTYPES, [True, False]]),
    *train_steps([ON_GPUS, _STEPPED, [((17, 3),)], [F4, F2], [True]]),
    *train_steps(
        [["lazy_adam"], ["random", _STEPPED[2]], [((17, 3),)], [F4], [True]],
        label_smoothing=0.25,
        not_decayed=["biases"],
    ),
    *steps_from_states((17, 3)),
    *cases(
        errors.check_states,
        rows=[
            ("random", F4),
            ("two_level_100", F2),
            ("two_level_7", np.float64),
        ],
    ),
    *cases(
        check_log_probs,
        [*_KINDS, "pinned huffman_203"],
        [((5, 3),)],
        DTYPES,
        [(False, tf.Variable), (True,)],
    ),
    *cases(
        check_log_probs,
        ["flat", "one_huge_group"],
        [((35, 70),)],
        [F4],
        [False],
    ),
    *cases(
        answers.check_given_classes,
        ["two_level_100", "random", "pinned chain_50", *_OF_FORESTS],
        [((5, 3),)],
        DTYPES,
        INTEGERS,
    ),
    *best(_SMALL, FORESTS),
    *draws(_DRAWN, [("random", np.float64), ("below ragged", np.float64)], 80),
    *cases(answers.check_leading_shapes, rows=LEADING),
    *cases(
        check_log_probs,
        FORESTS,
        [((7, 5),)],
        DTYPES,
        STARTED,
        has_starts=True,
    ),
    *cases(check_log_probs, FORESTS, [((7, 5),)], [F4], STARTED[1:]),
]


def on_gpus(needs_cublas):
    """Cases for a GPU; the mark is for what calls cuBLAS."""
    stepped = ["two_level_1013", "binary_37", "chain_50", "one_huge_group"]
    states = ["random", "two_level_100", "two_level_1013", "one_huge_group"]
    return [
        *_BOTH,
        *cases(
            check_loss,
            [*TREES, *FORESTS],
            [((1, 1),), ((5, 3),), ((67, 129),), ((252, 50),)],
            DTYPES,
        ),
        *cases(
            check_loss,
            ["random", "one_huge_group", *PINNED, *FORESTS],
            [((5, 3),), ((252, 50),)],
            DTYPES,
            [(s,) for s in SMOOTHED],
        ),
        *cases(check_loss, ["random"], [((17, 33),)], DTYPES, graph=True),
        *cases(check_loss, ["chain_10000"], [((3, 5),)], DTYPES),
        *shapes([[], [0], [6], [2, 3], [3, 0]]),
        *cases(errors.check_bad_labels, DTYPES, INTEGERS),
        *ignored(DTYPES),
        *train_steps(
            [
                ON_GPUS,
                [*stepped, "pinned huffman_203"],
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
            not_decayed=["biases"],
        ),
        *train_steps(
            [["lazy_adam"], ["random"], [((20, 9),)], [F4], [True]],
            graph=True,
        ),
        *steps_from_states((67, 33)),
        *cases(errors.check_states, states, DTYPES),
        *cases(
            check_log_probs,
            TREES,
            [((1, 1),), ((5, 3),), ((67, 129),)],
            DTYPES,
            [(False, tf.Variable), (True,)],
            marks=needs_cublas,
        ),
        *cases(
            check_log_probs,
            rows=[("random", (17, 33), F4, False)],
            marks=needs_cublas,
            graph=True,
        ),
        *cases(
            answers.check_given_classes,
            [*TREES, *FORESTS],
            [((20, 33),)],
            DTYPES,
            INTEGERS,
        ),
        *best(TREES, FORESTS),
        *draws(
            [
                *itertools.product(TREES, SEARCHED),
                *itertools.product(FORESTS, [F4]),
            ],
            [(name, np.float64) for name in TREES],
            5000,
        ),
        *cases(answers.check_leading_shapes, rows=LEADING, marks=needs_cublas),
        *cases(
            check_log_probs,
            FORESTS,
            [((7, 5),)],
            DTYPES,
            STARTED,
            marks=needs_cublas,
            has_starts=True,
        ),
    ]
