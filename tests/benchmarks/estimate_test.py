"""Estimates of small models, against their variables and gradients."""

import pytest

import tf_hsm
from benchmarks.estimate import bodies, estimated, heads, report, trained
from benchmarks.estimate.models import Model
from tests.support import oracle
from tf_hsm.estimation import slots
from tf_hsm.estimation.setting import Setting

BATCH, LENGTH, VOCABULARY, CLASSES = 16, 6, 60, 200
BODIES = {
    "nothing": (bodies.nothing, None, 12),
    "ids": (bodies.nothing, VOCABULARY, 12),
    "embedding": (bodies.embedding(VOCABULARY, 12), VOCABULARY, None),
    "rnn": (
        bodies.recurrent(VOCABULARY, 8, "SimpleRNN", [12, 12]),
        VOCABULARY,
        None,
    ),
    "lstm": (bodies.recurrent(VOCABULARY, 8, "LSTM", [12]), VOCABULARY, None),
    "gru": (bodies.recurrent(VOCABULARY, 8, "GRU", [9, 12]), VOCABULARY, None),
    "transformer": (
        bodies.transformer(VOCABULARY, layers=2, width=12, heads=3),
        VOCABULARY,
        None,
    ),
    "grouped": (
        bodies.transformer(VOCABULARY, layers=1, width=12, heads=4, kv_heads=2),
        VOCABULARY,
        None,
    ),
}
HEADS = {
    "full": heads.full(CLASSES),
    "hierarchical": heads.hierarchical(CLASSES),
    "in place": heads.hierarchical(CLASSES, "adagrad"),
    "embeddings": heads.embedding(CLASSES, VOCABULARY, 12),
    "embeddings in place": heads.embedding(CLASSES, VOCABULARY, 12, "adagrad"),
    "adaptive": heads.adaptive(CLASSES),
    "gather": heads.baseline("gather", CLASSES),
    "embedding_lookup": heads.baseline("embedding_lookup", CLASSES),
    "map_fn": heads.baseline("map_fn", CLASSES),
    "sampled": heads.baseline("sampled", 1200),  # more than it samples
}
# Each body, head and optimizer.
CASES = [
    ("nothing", "hierarchical", "adam"),
    ("ids", "embeddings", "adam"),
    ("ids", "embeddings in place", "sgd"),
    ("rnn", "adaptive", "adam"),
    ("lstm", "full", "adagrad"),
    ("gru", "in place", "lazy_adam"),
    ("transformer", "full", "sgd"),
    ("grouped", "gather", "rmsprop"),
    *(
        ("embedding", head, "adam")
        for head in ("embedding_lookup", "map_fn", "sampled")
    ),
]


@pytest.mark.parametrize(("body", "head", "optimizer"), CASES)
def test_variables_slots_and_gradients(body, head, optimizer):
    make, vocabulary, width = BODIES[body]
    length = None if body in ("nothing", "ids", "embedding") else LENGTH
    model = Model(
        "small",
        BATCH,
        length,
        vocabulary,
        make,
        HEADS[head],
        optimizer=optimizer,
        width=width,
    )
    training = trained.training_of(model)
    batch = trained.batches_of(model, 1)[0]
    training.step(*batch)
    setting = Setting(
        BATCH,
        model.length or 1,
        "float32",
        "float32",
        slots.of(trained.optimizer_of(model)),
    )
    parts = estimated.parts_of(model, setting)
    variables = trained.bytes_of(training.variables())
    assert sum(p.parameter_bytes for p in parts) == variables
    assert sum(p.slot_bytes for p in parts) == trained.bytes_of(
        training.slots()
    )
    gradients = sum(p.gradient_bytes for p in parts)
    measured = training.gradient_bytes(*batch)
    if head in ("hierarchical", "embeddings"):
        gradients += _bytes_of_drawn_rows(batch[1], width)
    assert gradients == pytest.approx(measured, rel=1e-9)


def _bytes_of_drawn_rows(labels, width):
    """Returns how many gradient bytes a batch has more than the mean batch.

    An estimate for a tree counts the mean number of rows that a batch touches.
    All other estimates of gradients hold for every batch.
    """
    tree = tf_hsm.Tree.two_level(CLASSES)
    mean = tree.expected_cost(batch=labels.size, width=width).touched_rows
    drawn = oracle.touched_rows(tree, labels).size
    assert drawn < tree.num_rows
    # Each row has float32 weights and a bias, and an int64 number for both.
    return (drawn - mean) * (4 * (width + 1) + 2 * 8)


def test_what_counts_as_right():
    measured = {
        "parameters": 100,
        "slots": 0,
        "gradients": 100,
        "peak": 1e9,
        "ms": 10.0,
        "process": report.PROCESS_BYTES,
    }
    same = report.judge(measured, measured)
    assert all(figure["ok"] for figure in same.values())
    other = {
        **measured,
        "parameters": 101,
        "gradients": 103,
        "peak": 1.21e9,
        "ms": 12.6,
    }
    wrong = report.judge(measured, other)
    assert [name for name in wrong if wrong[name]["ok"]] == ["slots"]
    line = report.line("model", wrong, 2e9)
    assert line.count("*") == 4
    assert "2.00 GB" in line or "2 GB" in line
    summary = report.summary([same, wrong], [6e8, 7e8])
    assert "peak 1" in summary
    assert "has 600 MB to 700 MB" in summary
