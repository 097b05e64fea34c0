"""Text from the language model example, and the command that writes it."""

import collections
import dataclasses
import functools
import re

import keras
import numpy as np
import pytest

from examples.common import program
from examples.corpora import tokenizer
from examples.language_model import (
    checkpoint,
    generate,
    generation,
    model,
    reading,
    run,
    settings,
)
from tests.support import decoding_reference
from tests.support.texts import write_sentences

SENTENCE = r"the noun\d+ sees a noun\d+ and verb\d+s\."


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of sentences of one form."""
    return str(write_sentences(tmp_path_factory.mktemp("text"), 500))


def prepare(text, folder, **changes):
    """A `run.Job` whose model has random weights."""
    small = {
        "corpus": text,
        "tree": "huffman",
        "branching": 8,
        "units": 24,
        "batch_size": 5,
        "steps": 7,
        "learning_rate": 0.01,
    }
    return run.prepare(settings.Settings(**{**small, **changes}), folder)


@pytest.fixture(scope="module")
def trained(text, tmp_path_factory):
    """A finished `run.Job`."""
    folder = tmp_path_factory.mktemp("trained")
    job = prepare(text, folder, cell="rnn", epochs=2)
    job.train()
    return job


@pytest.fixture
def untrained(text, tmp_path):
    """A `run.Job` whose model prefers no class much."""
    job = prepare(text, tmp_path, cell="rnn")
    bias = job.model.get_layer("head").bias
    bias.assign(np.zeros(bias.shape))
    return job


def favour(job, word, nats):
    """Makes a class, and those below the same nodes, more probable."""
    head = job.model.get_layer("head")
    bias = head.bias.numpy()
    bias[head.tree.path(job.text.words.index(word))] += nats
    head.bias.assign(bias)


def test_texts_are_like_the_text_learned(trained):
    texts = generation.generate(
        trained.model, trained.state, length=50, num_texts=9, seed=5
    )
    assert len(set(texts)) > 5
    lines = [line for text in texts for line in text.split("\n")[:-1]]
    likely = [line for line in lines if re.fullmatch(SENTENCE, line)]
    assert len(likely) > 0.6 * len(lines) >= 5


def test_each_token_follows_from_all_before(text, tmp_path):
    job = prepare(text, tmp_path, head="full", cell="lstm", units="24,24")
    # Line breaks may follow each other, and would not be found again.
    words = [word.replace("\n", "newline") for word in job.text.words]
    rng = np.random.default_rng(1)
    for weight in job.model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(size=weight.shape))
    prompt = ["the", "noun3", "nobody"]
    state = dataclasses.replace(job.state, words=words)
    (written,) = generation.generate(
        job.model, state, prompt, length=20, top_k=1
    )
    tokens = ["<eof>", *tokenizer.split(written.replace("<eof>", ""))]
    assert tokens[1:4] == prompt

    # The same in one go.
    classes = [
        words.index(token if token in words else "<unk>") for token in tokens
    ]
    whole = keras.models.clone_model(
        model.body(job.model),
        input_tensors=keras.Input(batch_shape=(1, len(classes)), dtype="int32"),
    )
    whole.set_weights(model.body(job.model).get_weights())
    hidden = whole(np.array([classes]))
    log_probs = job.model.get_layer("head").log_probs(hidden)[0].numpy()
    log_probs[:, words.index("<unk>")] = -np.inf
    best = [words[c] for c in log_probs.argmax(axis=1)]
    assert best[3:-1] == tokens[4:]
    assert len(set(best[3:])) > 3
    ended = written.endswith("<eof>")
    assert len(tokens) == 24 or (ended and best[-1] == "<eof>")


def test_unknown_is_not_written_and_others_keep_their_odds(untrained):
    words = untrained.text.words
    favour(untrained, "<unk>", 3)
    favour(untrained, "sees", 2)
    favour(untrained, "noun7", 1)
    step, state = reading.reader(model.body(untrained.model), 1)
    hidden, _ = step(np.array([words.index("<eof>")]), state)
    head = untrained.model.get_layer("head")
    p = np.exp(head.log_probs(hidden)[0].numpy())
    unknown = words.index("<unk>")
    assert 0.3 < p[unknown] < 0.7
    p[unknown] = 0
    p /= p.sum()
    num_texts = 4000
    texts = generation.generate(
        untrained.model,
        untrained.state,
        length=1,
        num_texts=num_texts,
        top_p=1.0,
    )
    counts = collections.Counter(texts)
    assert set(counts) <= set(words) - {"<unk>"}
    error = np.array([counts[word] for word in words]) - num_texts * p
    # Six standard deviations.
    assert np.all(np.abs(error) <= 6 * np.sqrt(num_texts * p) + 1e-9)


@pytest.mark.parametrize("restriction", ({}, {"top_k": 1}, {"top_p": 0.1}))
def test_the_next_best_stands_for_an_unknown(untrained, restriction):
    favour(untrained, "<unk>", 11 if restriction else 40)
    favour(untrained, "sees", 10)
    (written,) = generation.generate(
        untrained.model, untrained.state, length=5, **restriction
    )
    assert written == "sees sees sees sees sees"


def test_texts_end_where_the_model_ends_them(untrained):
    favour(untrained, "<eof>", 2)
    texts = generation.generate(
        untrained.model, untrained.state, length=9, num_texts=20, top_p=1.0
    )
    assert len({len(tokenizer.split(text)) for text in texts}) > 5
    assert all(text.find("<eof>") in (-1, len(text) - 5) for text in texts)
    assert not all(text.endswith("<eof>") for text in texts)

    favour(untrained, "<eof>", 50)
    texts = generation.generate(
        untrained.model, untrained.state, ["the"], length=5, num_texts=2
    )
    assert texts == ["the <eof>"] * 2


@pytest.mark.parametrize("body", ("recurrent", "transformer"))
def test_a_beam_finds_the_most_probable_texts(text, tmp_path, body):
    """A search in plain Python that reads each text anew finds the same."""
    job = prepare(text, tmp_path, body=body)
    words = job.text.words
    rng = np.random.default_rng(1)
    for weight in job.model.trainable_weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    first = [words.index(word) for word in ("<eof>", "the", "noun3")]
    head = job.model.get_layer("head")

    step, zero = reading.reader(model.body(job.model), 1)

    def log_probs(classes):
        state = zero
        for c in (*first, *classes):
            hidden, state = step(np.array([c]), state)
        return np.float64(head.log_probs(hidden)[0])

    wanted = decoding_reference.beam_search(
        functools.cache(log_probs),
        3,
        4,
        end=words.index("<eof>"),
        exclude=[words.index("<unk>")],
    )
    found = generation.search(
        job.model, job.state, ["the", "noun3"], length=4, beam_width=3
    )
    assert found == [
        tokenizer.join(["the", "noun3", *(words[c] for c in classes)])
        for classes, _ in wanted
    ]


def command(*arguments):
    """Runs the command in this process."""
    program.run(generate.main, generate.flags, ["generate", *arguments])


def test_command(trained, capsys):
    folder = f"--model={trained.save_dir}"
    command(folder, "--length=20")
    (written,) = generation.generate(trained.model, trained.state, length=20)
    assert capsys.readouterr().out == f"{written}\n"

    command(
        folder,
        "--prompt=the Zebra sees\n",
        "--num_samples=2",
        "--seed=3",
        "--length=9",
        "--temperature=0.8",
        "--top_k=5",
    )
    first, second = generation.generate(
        trained.model,
        trained.state,
        ["the", "Zebra", "sees", "\n"],
        length=9,
        num_texts=2,
        seed=3,
        temperature=0.8,
        top_k=5,
    )
    shown = capsys.readouterr()
    assert shown.out == f"--- 1 of 2\n{first}\n--- 2 of 2\n{second}\n"
    assert first.startswith("the Zebra sees\n")
    assert "not learned them: Zebra\n" in shown.err


@pytest.mark.parametrize(
    ("flag", "message"),
    (
        ("--model={tmp}", "no run. --model must be .* //:train`"),
        ("--model={tmp}/damaged", "is damaged"),
        ("--top_k=999", "at most [0-9]+, the"),
        ("--temperature=0", "must be above 0"),
        ("--num_samples=3 --beam_width=2", "at most --beam_width=2 texts"),
        ("--lenght=9", "'lenght'. Did you mean: length"),
        ("prompt", "Not a flag: prompt"),
    ),
)
def test_bad_flags_are_named(trained, tmp_path, flag, message):
    (tmp_path / "damaged").mkdir()
    whole = (trained.save_dir / checkpoint.MODEL).read_bytes()
    damaged = tmp_path / "damaged" / checkpoint.MODEL
    damaged.write_bytes(whole[: len(whole) // 2])
    flag = flag.format(tmp=tmp_path)
    with pytest.raises(SystemExit, match=rf"^error: .*{message}"):
        command(f"--model={trained.save_dir}", *flag.split())
