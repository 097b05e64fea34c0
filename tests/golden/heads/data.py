"""The data of the cases, and the arguments that Keras and the heads take."""

import numpy as np

from tests.golden.heads import bodies
from tests.golden.heads.bodies import BAG, NUM_CLASSES, STEPS, WIDTH
from tests.golden.heads.cases import CASES, NUM_EMBEDDINGS, TREE

EXAMPLES = 20


def make_data(name):
    """Returns a dictionary of the arrays that a case trains on.

    The keys are `labels`; `given`, which are classes for `log_prob`; `hidden`,
    which are inputs of the head; and the inputs of the model. These are `x`,
    or for bags `ids` and `weights`. An endpoint also has `weights`, one for
    each example.
    """
    case = CASES[name]
    rng = np.random.default_rng(2)
    sequences = case.body in (bodies.tokens, bodies.tied)
    shape = [EXAMPLES, STEPS] if sequences else [EXAMPLES]
    num_given = TREE.num_rows if case.nodes else NUM_CLASSES
    data = {
        "labels": case.labels(rng, shape),
        "given": rng.integers(num_given, size=[7, 5]),
        "hidden": rng.normal(size=[7, WIDTH]).astype(np.float32),
    }
    if sequences:
        x = rng.integers(1, NUM_CLASSES, size=shape, dtype=np.int32)
        ends = rng.integers(1, STEPS + 1, size=[EXAMPLES, 1])
        data["x"] = np.where(np.arange(STEPS) < ends, x, 0)
    elif case.body is bodies.bags:
        ids = rng.integers(NUM_EMBEDDINGS, size=[EXAMPLES, BAG])
        sizes = rng.integers(BAG + 1, size=[EXAMPLES, 1])
        data["ids"] = np.where(np.arange(BAG) < sizes, ids, -1)
        data["weights"] = rng.uniform(0.5, 2, ids.shape).astype(np.float32)
    else:
        data["x"] = rng.normal(size=[*shape, WIDTH]).astype(np.float32)
    if case.body is bodies.endpoint:
        data["weights"] = rng.uniform(0.5, 2, shape).astype(np.float32)
    return data


def fit_arguments(name, data):
    """Returns the arguments of `fit` and `evaluate` for the data of a case."""
    body = CASES[name].body
    if body is bodies.endpoint:
        return {"x": [data["x"], data["labels"], data["weights"]]}
    if body is bodies.bags:
        return {"x": [data["ids"], data["weights"]], "y": data["labels"]}
    return {"x": data["x"], "y": data["labels"]}


def head_inputs(name, data):
    """Returns inputs of the head: what `top_k` and its other methods take."""
    if CASES[name].body is bodies.bags:
        return [data["ids"][:7], data["weights"][:7]]
    return data["hidden"]
