"""Training of word vectors, on texts of seconds."""

import math
import re

import numpy as np
import pytest

import tf_hsm
from examples.word2vec import model, text, windows
from tests.support.word2vec_runs import (
    assert_near,
    command,
    make_settings,
    make_text,
    random_model,
    write_topics,
)


@pytest.mark.parametrize(
    ("architecture", "branching", "optimizer"),
    [
        ("skip_gram", 2, "sgd"),
        ("cbow", 2, "adagrad"),
        ("cbow", 5, "rowwise_adagrad"),
    ],
)
def test_steps_against_the_formulas(architecture, branching, optimizer):
    source = make_text()
    chosen = make_settings(
        optimizer=optimizer, architecture=architecture, branching=branching
    )
    trained, reference = random_model(source.counts, chosen)
    contexts, *splits, labels = (
        windows.Windows(source, chosen).slice(0, 0).examples
    )
    count = 17  # two batches of 7, and one of 3
    labels = labels[:count]
    splits = splits[0][: count + 1] if splits else np.arange(count + 1)
    bags = np.split(contexts[: splits[-1]], splits[1:-1])
    examples = [contexts[: splits[-1]], labels]
    if architecture == "cbow":
        examples.insert(1, splits)
        assert len({len(bag) for bag in bags}) > 1
    losses = []
    for i in range(0, count, chosen.batch_size):
        batch = slice(i, i + chosen.batch_size)
        losses += reference.step(bags[batch], labels[batch], 0.05)
    assert trained.train(examples, 0.05) == pytest.approx(sum(losses), rel=1e-5)
    assert_near(trained, reference)


@pytest.fixture(scope="module")
def corpus_file(tmp_path_factory):
    """Sentences of which each is about one of three things."""
    topics = [[f"{topic}{k}" for k in range(20)] for topic in "abc"]
    return write_topics(tmp_path_factory.mktemp("text"), topics)


@pytest.mark.parametrize(
    ("architecture", "optimizer"),
    [("skip_gram", "rowwise_adagrad"), ("cbow", "sgd")],
)
def test_a_vector_per_inner_node_learns_as_much_as_two(
    corpus_file, monkeypatch, optimizer, architecture
):
    """Two that move apart by r each are as one that moves by 2 r.

    The words' vectors move by r either way. sqrt(2) r for both tables has the
    same product: another scale of one table against the other, but for that
    the same steps.
    """
    rate = 0.03 if optimizer == "sgd" else 0.2
    chosen = make_settings(
        corpus=str(corpus_file),
        optimizer=optimizer,
        architecture=architecture,
        width=16,
        batch_size=32,
    )
    source = text.load(chosen)
    examples = windows.Windows(source, chosen).slice(0, 0).examples

    def losses_of(trained, rate):
        return [
            trained.train(examples, rate) / len(examples[-1]) for _ in range(3)
        ]

    pinned = model.Model(source.counts, chosen)
    assert pinned.tree.pinned
    with monkeypatch.context() as patch:
        build = tf_hsm.Tree.huffman
        patch.setattr(
            tf_hsm.Tree,
            "huffman",
            lambda counts, branching, pinned: build(
                counts, branching=branching
            ),
        )
        whole = model.Model(source.counts, chosen)
    assert whole.tree == pinned.tree.expand()
    assert whole.weights.shape[0] == 2 * pinned.weights.shape[0]
    mine = losses_of(pinned, math.sqrt(2) * rate)
    its = losses_of(whole, rate)
    assert mine[-1] < mine[0]
    np.testing.assert_allclose(mine, its, rtol=0.01)


def test_tables_begin_as_in_word2vec():
    trained = model.Model(np.array([3, 2, 2, 1]), make_settings(width=50))
    assert not trained.weights.numpy().any()
    vectors = trained.vectors.numpy()
    assert vectors.shape == (4, 50)
    assert 0.008 < abs(vectors).max() <= 0.01


@pytest.mark.parametrize(
    ("architecture", "optimizer"),
    [("cbow", "sgd"), ("skip_gram", "rowwise_adagrad")],
)
def test_program(corpus_file, tmp_path, capsys, architecture, optimizer):
    command(
        *(
            f"--corpus={corpus_file}",
            f"--output={tmp_path / 'v'}",
            "--width=16",
        ),
        *(f"--architecture={architecture}", f"--optimizer={optimizer}"),
        *("--learning_rate=0.1", "--batch_size=32", "--epochs=8"),
        *("--neighbours=a1,c5,d1", "--num_neighbours=5"),
    )
    out = capsys.readouterr().out
    losses = re.findall(r"^epoch \d/8: loss ([\d.]+)$", out, re.M)
    assert len(losses) == 8
    # log 60 = 4.1 for a word of any topic, log 20 = 3.0 for one of the right.
    assert float(losses[-1]) < min(float(losses[0]), 3.4)
    # All five nearest are about the same thing.
    for name in "a1", "c5":
        (line,) = re.findall(rf"^  {name}  (.*)$", out, re.M)
        assert re.sub(r"[\d. ]", "", line) == 5 * name[0]
    assert "d1  (not among these 61 words)" in out
    assert (tmp_path / "v").read_bytes().startswith(b"61 16\nthe ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus=nowhere"], "there are no such files"),
        (["--min_count=1"], "--min_count=1: must be at least 2"),
        (["--min_count=1000000"], "--min_count"),
        (["--optimizer=sgd", "--learning_rate=1e9"], "lower --learning_rate"),
    ],
)
def test_errors_are_one_line(corpus_file, tmp_path, arguments, message):
    with pytest.raises(SystemExit) as error:
        command(f"--corpus={corpus_file}", f"--output={tmp_path}", *arguments)
    assert re.match(rf"\s?error: .*{re.escape(message)}", str(error.value))
    assert "\n" not in str(error.value).strip()
