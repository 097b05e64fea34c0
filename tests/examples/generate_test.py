"""Text from the language model example, and the command that writes it."""

import collections
import json
import pathlib
import random
import re
import subprocess
import sys

import keras
import numpy as np
import pytest

from examples.language_model import (
    checkpoint,
    generation,
    model,
    run,
    settings,
    tokenizer,
)
from tests.support.texts import write_sentences

SENTENCE = r"the noun\d+ sees a noun\d+ and verb\d+s\."

# Runs the command once per line of its standard input, a list of arguments.
PROGRAM = """
import json
import sys
from absl import flags
from absl.testing import flagsaver
from examples.language_model import generate

for line in sys.stdin:
    with flagsaver.flagsaver():
        try:
            flags.FLAGS(["generate", *json.loads(line)])
            generate.main(["generate"])
        except (SystemExit, flags.Error) as error:
            print(error)
    print("=====", flush=True)
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A file of sentences of one form."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    write_sentences(path, 500)
    return str(path)


def prepare(text, folder, **changes):
    """A `run.Job` whose model has random weights."""
    small = {
        "corpus": text,
        "branching": 8,
        "units": 24,
        "batch_size": 5,
        "steps": 7,
        "learning_rate": 0.02,
    }
    return run.prepare(settings.Settings(**{**small, **changes}), folder)


@pytest.fixture(scope="module")
def trained(text, tmp_path_factory):
    """A finished `run.Job`."""
    folder = tmp_path_factory.mktemp("trained")
    job = prepare(text, folder, cell="rnn", epochs=1)
    job.train()
    return job


@pytest.fixture
def untrained(text, tmp_path):
    """A `run.Job` whose model prefers no class much."""
    return prepare(text, tmp_path, cell="rnn", frequency_biases=False)


def favour(job, word, nats):
    """Makes a class, and those below the same nodes, more probable."""
    head = job.model.get_layer("head")
    bias = head.bias.numpy()
    bias[head.tree.path(job.text.words.index(word))] += nats
    head.bias.assign(bias)


def test_texts_are_like_the_text_learned(trained):
    texts = generation.generate(
        trained.model, trained.text.words, length=50, num_texts=9, seed=5
    )
    assert len(set(texts)) > 5
    lines = [line for text in texts for line in text.split("\n")[:-1]]
    likely = [line for line in lines if re.fullmatch(SENTENCE, line)]
    assert len(likely) > 0.6 * len(lines) >= 5


@pytest.mark.parametrize(
    ("head", "cell", "layers"),
    (("hierarchical", "lstm", 2), ("full", "gru", 1)),
)
def test_each_token_follows_from_all_before(text, tmp_path, head, cell, layers):
    job = prepare(text, tmp_path, head=head, cell=cell, layers=layers)
    # Line breaks may follow each other, and would not be found again.
    words = [word.replace("\n", "newline") for word in job.text.words]
    rng = np.random.default_rng(0)
    for weight in job.model.weights:
        if "seed" not in weight.path:
            weight.assign(rng.normal(size=weight.shape))
    prompt = ["the", "noun3", "nobody"]
    (written,) = generation.generate(
        job.model, words, prompt, length=20, top_k=1
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
    body = model.writer(untrained.model, 1)
    hidden = body(np.array([[words.index("<eof>")]]))
    head = untrained.model.get_layer("head")
    p = np.exp(head.log_probs(hidden)[0, 0].numpy())
    unknown = words.index("<unk>")
    assert 0.3 < p[unknown] < 0.7
    p[unknown] = 0
    p /= p.sum()
    num_texts = 4000
    texts = generation.generate(
        untrained.model, words, length=1, num_texts=num_texts, top_p=1.0
    )
    counts = collections.Counter(texts)
    assert set(counts) <= set(words) - {"<unk>"}
    error = np.array([counts[word] for word in words]) - num_texts * p
    # Six standard deviations.
    assert np.all(np.abs(error) <= 6 * np.sqrt(num_texts * p) + 1e-9)


@pytest.mark.parametrize(
    ("nats", "restriction"),
    ((40, {}), (11, {"top_k": 1}), (11, {"top_p": 0.1})),
)
def test_the_next_best_stands_for_an_unknown(untrained, nats, restriction):
    favour(untrained, "<unk>", nats)
    favour(untrained, "sees", 10)
    (written,) = generation.generate(
        untrained.model, untrained.text.words, length=5, **restriction
    )
    assert written == "sees sees sees sees sees"


def test_texts_end_where_the_model_ends_them(untrained):
    words = untrained.text.words
    favour(untrained, "<eof>", 2)
    texts = generation.generate(
        untrained.model, words, length=9, num_texts=20, top_p=1.0
    )
    assert len({len(tokenizer.split(text)) for text in texts}) > 5
    assert all(text.find("<eof>") in (-1, len(text) - 5) for text in texts)
    assert not all(text.endswith("<eof>") for text in texts)

    favour(untrained, "<eof>", 50)
    texts = generation.generate(
        untrained.model, words, ["the"], length=5, num_texts=2
    )
    assert texts == ["the <eof>"] * 2


def test_training_ends_with_the_text_of_its_seed(trained, capsys):
    trained.finish()
    shown = capsys.readouterr().out
    first, other = (
        generation.generate(
            trained.model, trained.text.words, length=60, seed=seed
        )[0]
        for seed in (trained.state.settings.seed, 2)
    )
    assert shown.endswith(f"does:\n{first}\n")
    assert other != first


def test_command(trained, tmp_path):
    folder = f"--model={trained.save_dir}"
    (tmp_path / "damaged").mkdir()
    damaged = tmp_path / "damaged" / checkpoint.MODEL
    whole = (trained.save_dir / checkpoint.MODEL).read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    cases = {
        (folder, "--length=20"): None,
        (
            folder,
            "--prompt=the Zebra sees\n",
            "--num_samples=2",
            "--seed=3",
            "--length=9",
            "--temperature=0.8",
            "--top_k=5",
        ): None,
        (f"--model={tmp_path}",): "no run. --model must be .* //:train`",
        (f"--model={tmp_path}/damaged",): "is damaged",
        (folder, "--top_k=999"): f"at most {len(trained.text.words)}, the",
        (folder, "--temperature=0"): "must be above 0",
        (folder, "--top_p=1.5"): "must be above 0, at most 1",
        (folder, "--length=0"): "--length=0: 0 is not a positive",
    }
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(json.dumps(arguments) for arguments in cases),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    plain, prompted, *errors, rest = result.stdout.split("=====\n")
    assert rest == ""

    words = trained.text.words
    (written,) = generation.generate(trained.model, words, length=20)
    assert plain == f"{written}\n"
    first, second = generation.generate(
        trained.model,
        words,
        ["the", "Zebra", "sees", "\n"],
        length=9,
        num_texts=2,
        seed=3,
        temperature=0.8,
        top_k=5,
    )
    assert prompted == f"--- 1 of 2\n{first}\n--- 2 of 2\n{second}\n"
    assert first.startswith("the Zebra sees\n")
    assert "not learned them: Zebra\n" in result.stderr
    messages = list(cases.values())[2:]
    for error, message in zip(errors, messages, strict=True):
        assert re.search(message, error), error


def test_joined_tokens_are_the_same_tokens():
    for path in (tokenizer.__file__, keras.__file__, random.__file__, __file__):
        tokens = tokenizer.split(pathlib.Path(path).read_text())
        assert tokenizer.split(tokenizer.join(tokens)) == tokens
    assert tokenizer.join([]) == ""


@pytest.mark.parametrize(
    "text",
    (
        "def f(x, y):\n    return {g(x)[0]: 'a b', 1: \"\"} # two",
        'if (x ** 2 != y.z) and not [1.5]:\n\t"""It\'s done. Is it?"""',
        "She said, \"I don't know\" (and didn't). We'll see...",
        "an odd 'mark\nand 'two marks'",
        "@property\ndef f(self) -> int: self.x += 1 // 2",
    ),
)
def test_spaces_are_set_where_they_are_usual(text):
    assert tokenizer.join(tokenizer.split(text)) == text


def test_a_prompt_may_end_in_a_line_break():
    assert tokenizer.split_beginning("if x:\n    ") == [
        *("if", "x", ":", "\n    ")
    ]
    assert tokenizer.split_beginning("") == []
    assert tokenizer.split("if x:\n    ") == ["if", "x", ":"]
