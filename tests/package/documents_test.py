"""What README.md and the other documents tell a reader to type."""

import functools
import pathlib
import re
import shlex

import keras
import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

import tf_hsm
from tests.support import children, programs
from tf_hsm.cli import program

ROOT = pathlib.Path().resolve()
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in (
        "*.md",
        "docs/*.md",
        "benchmarks/*.md",
        "examples/*/*.md",
        "tests/*.md",
    )
    for path in ROOT.glob(pattern)
)
# Languages other than Python are not run; a block says its language.
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_INDENTED = re.compile(r"(?<=\n\n)(?:    .*\n)+")
_INLINE = re.compile(r"`([^`]+)`")
_RUN = re.compile(r"bazel run (?:-c opt )?//([\w/]*):?(\w*)(?: -- (.*))?")
_MODULE = "python -m tf_hsm "
# Targets of the root that are not in examples/language_model.
_ALIASES = {
    "compare": ("benchmarks", "fit"),
    "word2vec": ("examples/word2vec", "train"),
}
# Benchmarks whose target has another name.
_FOLDERS = {"topk": "top_k"}


# Every document that says `bazel run` has a command that is checked.
NAMES_OF_RUNS = [
    name for name in DOCUMENTS if "bazel run" in (ROOT / name).read_text()
]


def python_blocks(name):
    """Each block below as many empty lines, so that errors name its own."""
    text = (ROOT / name).read_text()
    return [
        "\n" * text.count("\n", 0, match.start(2)) + match[2]
        for match in _FENCED.finditer(text)
        if match[1] == "python"
    ]


def commands(name):
    """The shell commands of a document, in blocks and in the text."""
    text = _FENCED.sub("", (ROOT / name).read_text())
    blocks = [match[0] for match in _INDENTED.finditer(text)]
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    lines += [
        match[1].replace("\n", " ")
        for match in _INLINE.finditer(_INDENTED.sub("", text))
    ]
    for line in lines:
        # A comment, and what follows on the same line.
        line = re.sub(r"\s+#.*", "", line.strip())
        yield from re.split(r"\s*&&\s*", line)


def module_commands(name, pattern):
    """The arguments of each `python -m tf_hsm` that match a pattern."""
    return [
        command.removeprefix(_MODULE)
        for command in commands(name)
        if re.fullmatch(_MODULE + pattern, command)
    ]


def tree_commands(name):
    """Those that build trees and show them."""
    # Not "tree ..." or "build|plot", which name several.
    return module_commands(name, r"tree [^|]*[^|.]")


def other_commands(name):
    """Those that measure, write a picture, or do not end."""
    return module_commands(name, r"(?:estimate|cluster_task) .*")


def run_commands(name):
    """The `bazel run` commands of a document that do not ask for help."""
    return [
        command
        for command in commands(name)
        if (match := _RUN.fullmatch(command)) and match[3] != "--help"
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def names_with(found):
    """The documents in which `found` finds something.

    Pages of examples quote parts of their programs, which other tests run.
    """
    return [
        name
        for name in DOCUMENTS
        if found(name) and not name.startswith("examples/")
    ]


def fit_shortly(monkeypatch):
    """Lets `fit` end soon: nothing that is printed depends on the rest."""
    fit = keras.Model.fit

    def short(model, *args, **options):
        options["epochs"] = min(options.get("epochs", 1), 1)
        options["steps_per_epoch"] = min(options.get("steps_per_epoch", 2), 2)
        return fit(model, *args, **options)

    monkeypatch.setattr(keras.Model, "fit", short)


@pytest.mark.parametrize("name", names_with(python_blocks))
def test_python_blocks_run_in_order(name, folder, monkeypatch):
    """All blocks of a document share one namespace."""
    if name != "README.md":
        fit_shortly(monkeypatch)
    namespace = {}
    for block in python_blocks(name):
        exec(compile(block, ROOT / name, "exec"), namespace)
    if name == "README.md":
        perplexities = namespace["model"].history.history["perplexity"]
        assert 10 < perplexities[-1] < 35
        served = tf.saved_model.load("served").signatures["serving_default"]
        (ids,) = served.structured_input_signature[1].values()
        assert ids.dtype == tf.int64


@pytest.mark.parametrize("name", NAMES_OF_RUNS)
def test_commands_have_the_flags_of_their_programs(name):
    """Each is named by `bazel run`; its values are checked too."""
    assert run_commands(name)
    for command in run_commands(name):
        assert not wrong_flags_of(command), command


@functools.cache
def wrong_flags_of(command):
    """What is wrong with the flags of a `bazel run` command."""
    folder, name, arguments = _RUN.fullmatch(command).groups()
    if not folder:
        folder, name = _ALIASES.get(name, ("examples/language_model", name))
    return wrong_flags(folder, name, shlex.split(arguments or ""))


def wrong_flags(folder, name, arguments):
    """What is wrong with the flags of the program `folder`:`name`."""
    if folder == "benchmarks":
        folder, name = f"benchmarks/{_FOLDERS.get(name, name)}", "main"
    if not (ROOT / folder / f"{name}.py").exists():
        sources = [path.read_text() for path in ROOT.glob(f"{folder}/*.cc")]
        known = re.findall(r'(?:\{|== )"(?:--)?(\w+)"', "".join(sources))
        given = re.findall(r"^--(\w+)", "\n".join(arguments), re.M)
        assert sources or not given, f"no {folder} in the BUILD of this test"
        return set(given) - set(known)
    if folder.startswith("tests/"):  # by argparse
        files = [ROOT / folder / f"{name}.py", pathlib.Path(children.__file__)]
        source = "".join(file.read_text() for file in files)
        known = re.findall(r'add_argument\("--(\w+)"', source)
        given = re.findall(r"^--(\w+)", "\n".join(arguments), re.M)
        return set(given) - set(known)
    module = f"{folder}.{name}".replace("/", ".")
    with programs.program(module) as program, flagsaver.flagsaver():
        # Those of an example are its own.
        defined = getattr(program, "flags", flags)
        values = getattr(defined, "values", flags.FLAGS)
        try:
            values([module, *arguments])
        except flags.Error as error:
            return error
    return None


@pytest.mark.parametrize("name", names_with(tree_commands))
def test_tree_commands_run_in_order(name, folder):
    counts = 1000 // np.arange(1, 301)
    lines = [f"word{i} {count}" for i, count in enumerate(counts)]
    pathlib.Path("words.txt").write_text("\n".join(lines))
    ids = np.arange(1_000) % 300
    np.savez("examples.npz", labels=ids, contexts=ids // 7)
    for command in tree_commands(name):
        assert program.main(shlex.split(command)) == 0, command


@pytest.mark.parametrize("name", [*filter(other_commands, DOCUMENTS)])
def test_other_commands_have_the_flags_of_the_program(name):
    for command in other_commands(name):
        program.parser().parse_args(shlex.split(command))


def test_the_build_file_for_tensorflow_serving_has_our_flags():
    """docs/serving.md compiles the same sources as bazel/op.bzl."""
    (block,) = (
        match[2]
        for match in re.finditer(
            r"^ *```(starlark)\n(.*?)^ *```$",
            (ROOT / "docs/serving.md").read_text(),
            re.M | re.S,
        )
    )
    rules = (ROOT / "bazel/op.bzl").read_text()
    isas = rules[rules.index("_AVX2 = ") : rules.index("_FUZZ_COPTS = ")]
    flags = re.findall(r'"([\w-]+)"', isas)
    assert "-mavx2" in flags and "amx" in flags
    for flag in (*flags, "-DTF_HSM_ISA=", "-Wno-psabi"):
        assert f'"{flag}"' in block, flag
    assert f'TF_HSM_VERSION=\\\\"{tf_hsm.__version__}\\\\"' in block


def test_a_wrong_flag_is_found(capsys):
    with pytest.raises(SystemExit):
        program.parser().parse_args(["estimate", "--clases=7"])
    assert "--clases=7" in capsys.readouterr().err
    wrong = ("--clases=7", "--labels=fair", "--repetitions=-1")
    for flag in ("--labels=zipf", *wrong):
        assert bool(wrong_flags("benchmarks", "loss", [flag])) == (
            flag in wrong
        )
