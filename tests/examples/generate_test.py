"""Text from the language model example, and the command that writes it."""

import re

import numpy as np
import pytest

from examples.common import program
from examples.language_model import (
    checkpoint,
    generate,
    generation,
    run,
    settings,
)
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


def test_texts_are_like_the_text_learned(trained):
    texts = generation.generate(
        trained.model, trained.state, length=50, num_texts=9, seed=5
    )
    assert len(set(texts)) > 5
    lines = [line for text in texts for line in text.split("\n")[:-1]]
    likely = [line for line in lines if re.fullmatch(SENTENCE, line)]
    assert len(likely) > 0.6 * len(lines) >= 5


@pytest.mark.parametrize("restriction", ({}, {"top_k": 1}))
def test_the_next_best_stands_for_an_unknown(text, tmp_path, restriction):
    job = prepare(text, tmp_path, cell="rnn")
    head = job.model.get_layer("head")
    bias = np.zeros(head.bias.shape)
    for word, nats in (("<unk>", 11 if restriction else 40), ("sees", 10)):
        bias[head.tree.path(job.text.words.index(word))] += nats
    head.bias.assign(bias)
    (written,) = generation.generate(
        job.model, job.state, length=5, **restriction
    )
    assert written == "sees sees sees sees sees"


def command(*arguments):
    """Runs the command in this process."""
    program.run(generate.main, generate.flags, ["generate", *arguments])


def test_command(trained, capsys):
    folder = f"--model={trained.save_dir}"
    command(folder, "--length=20")
    (written,) = generation.generate(trained.model, trained.state, length=20)
    assert capsys.readouterr().out == f"{written}\n"

    command(
        folder, "--prompt=the Zebra sees\n", "--num_samples=2", "--length=9"
    )
    shown = capsys.readouterr()
    first, second = shown.out.split("--- 2 of 2\n")
    assert first.startswith("--- 1 of 2\nthe Zebra sees\n") and second
    assert "not learned them: Zebra\n" in shown.err

    command(folder, "--prompt=the", "--beam_width=3", "--length=4")
    best, *_ = generation.search(trained.model, trained.state, ["the"], 4, 3)
    assert capsys.readouterr().out == f"{best}\n" and best.startswith("the")


@pytest.mark.parametrize(
    ("flag", "message"),
    (
        ("--model={tmp}", "no run. --model must be .* //:train`"),
        ("--model={tmp}/damaged", "is damaged"),
        ("--top_k=999", "at most [0-9]+, the"),
        ("--num_samples=3 --beam_width=2", "at most --beam_width=2 texts"),
        ("--lenght=9", "'lenght'. Did you mean: length"),
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
