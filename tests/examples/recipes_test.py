"""The recipes of the language model: flags of papers, in files."""

import pathlib
import re

import pytest

from examples.common import program
from examples.language_model import recipe, settings, train

FOLDER = pathlib.Path(recipe.__file__).parent / "recipes"


def parse(*arguments):
    """The settings that a command line gives."""
    values = train.flags.values
    for name in values:
        values[name].unparse()
    assert values(recipe.expand(["train", *arguments])) == ["train"]
    return train.chosen_settings("no run", resume=False)


def test_there_are_those_of_the_papers():
    assert set(recipe.NAMES) == {
        "europarl",
        "one_billion_words_large",
        "one_billion_words_small",
        "stdlib",
        "text8",
        "wikitext2",
    }


@pytest.mark.parametrize("name", recipe.NAMES)
def test_a_recipe_is_valid_settings(name, monkeypatch):
    chosen = parse(f"--recipe={name}")
    assert (chosen == settings.Settings()) == (name == "stdlib")
    # Also by its path, which is relative to where the command was given.
    monkeypatch.chdir(FOLDER.parent)
    assert parse(
        f"--flagfile=recipes/{name}.cfg", "--corpus=x"
    ).corpus.endswith("/x")
    # Every flag is one, and says something of its own.
    lines = (FOLDER / f"{name}.cfg").read_text().splitlines()
    flags = [line for line in lines if line and not line.startswith("#")]
    assert all(line.startswith("--") for line in flags)
    assert len({line.partition("=")[0] for line in flags}) == len(flags)
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("name", recipe.NAMES)
def test_its_estimate_is_made_as_it_says(name, capsys):
    text = (FOLDER / f"{name}.cfg").read_text()
    code = "\n".join(re.findall("^#     (.*)$", text, re.M))
    exec(code, {})
    estimate = capsys.readouterr().out
    (peak,) = re.findall(r"([\d.]+ [MG]B) at the peak", text)
    assert f"peak memory: {peak}," in estimate


def test_other_flags_override_a_recipe():
    for recipe_flags in (["--recipe=text8"], ["--recipe", "text8"]):
        for arguments in (
            [*recipe_flags, "--units=64,32", "--notied"],
            ["--units=64,32", *recipe_flags],
        ):
            chosen = parse(*arguments)
            assert chosen.units == (64, 32)
            assert chosen.cutoffs == (2000, 10_000)
            assert chosen.optimizer == "adagrad"
    assert parse("--recipe=wikitext2").cutoffs == ()
    assert parse("--recipe=text8", "--recipe=wikitext2").units == (
        1150,
        1150,
        400,
    )


def test_an_unknown_recipe_is_named(capsys):
    arguments = recipe.expand(["train", "--recipe=cake"])
    assert arguments == ["train", "--recipe=cake"]
    with pytest.raises(SystemExit, match=r"recipe.*cake.*one of .*text8"):
        program.run(train.main, train.flags, arguments)
    program.run(train.main, train.flags, ["train", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "One of europarl, one_billion_words_large, " in shown
