"""The settings of the language model example, and the flags that make them."""

import dataclasses
import json
import subprocess
import sys

import pytest

from examples.common import settings as settings_lib
from examples.language_model import settings, train


@pytest.mark.parametrize(
    ("changes", "message"),
    (
        ({"cell": "transformer"}, "--cell=transformer: must be one of rnn"),
        ({"head": "none"}, "--head=none: must be one of"),
        ({"tree": "oak"}, "--tree=oak: must be one of"),
        ({"body": "cnn"}, "--body=cnn: must be one of recurrent, transformer"),
        ({"optimizer": "adam"}, "--optimizer=adam: must be one of lazy_adam"),
        ({"decay": "linear"}, "--decay=linear: must be one of cosine"),
        ({"units": 0}, "--units=0: must be at least 1"),
        ({"units": ()}, "--units=: must have a number"),
        ({"units": "512,0"}, "--units=512,0: must be at least 1"),
        ({"units": "512;256"}, "--units=512;256: must be a whole number, or"),
        ({"units": "512,"}, "--units=512,: must be a whole number"),
        ({"units": ""}, "--units=: must have a number"),
        ({"embedding": 0}, "--embedding=0: must be at least 1"),
        ({"projection": -1}, "--projection=-1: must be at least 1"),
        ({"cutoffs": "9,9"}, "--cutoffs=9,9: must ascend"),
        ({"min_count": 0}, "--min_count=0: must be at least 1"),
        ({"format": "pdf"}, "--format=pdf: must be one of auto, documents"),
        ({"tokens": "bytes"}, "--tokens=bytes: must be one of words, code"),
        ({"dropout": 1.0}, "--dropout=1.0: must be below 1"),
        ({"dropout": float("nan")}, "--dropout=nan: must be at least 0"),
        ({"l2": -1.0}, "--l2=-1.0: must be at least 0"),
        ({"clipnorm": -1.0}, "--clipnorm=-1.0: must be at least 0"),
        ({"learning_rate": 0.0}, "--learning_rate=0.0: must be above 0"),
        (
            {"initial_accumulator": 0.0},
            "--initial_accumulator=0.0: must be above 0",
        ),
        (
            {"body": "transformer", "units": "8,4"},
            "--units=8,4: all blocks of --body=transformer have one width",
        ),
        (
            {"body": "transformer", "attention_heads": 3},
            "--attention_heads=3: must divide --units=128",
        ),
        ({"tied": True}, "--tied: the rows of --head=hierarchical are no"),
        (
            {"tied": True, "tree": "flat", "in_place": True},
            "--tied: with --tree=flat, the rows have one gradient",
        ),
        (
            {"tied": True, "head": "adaptive", "embedding": 64},
            "--embedding=64: .* as the head's inputs, 128; leave it out",
        ),
        (
            {"in_place": True, "head": "full"},
            "--in_place: --head=full has no update in place",
        ),
        (
            {"in_place": True, "clipnorm": 1.0},
            "--in_place: --clipnorm and --l2 need the gradient of all rows",
        ),
        ({"in_place": True, "l2": 1e-6}, "--in_place: --clipnorm and --l2 "),
    ),
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        settings.Settings(**changes)


def test_widths_are_numbers_or_texts():
    twice = settings.Settings(units=(24, 24))
    for units in ("24,24", [24, 24], ["24", "24"]):
        assert settings.Settings(units=units) == twice
    # Copies with one thing changed.
    assert dataclasses.replace(twice, units=8).units == (8,)
    assert dataclasses.replace(twice, head="full").units == (24, 24)
    # The JSON of a checkpoint.
    saved = json.loads(json.dumps(dataclasses.asdict(twice)))
    assert settings.Settings(**saved) == twice


def test_a_run_is_resumed_with_its_own_settings():
    before = settings.Settings(units=(24, 24))
    settings_lib.check_resumed("run", before, before, same_text=True)
    with pytest.raises(
        ValueError,
        match="the run in run: --units: 24,24 before, 8 now; --corpus: the te",
    ):
        settings_lib.check_resumed(
            "run", before, settings.Settings(units=8), same_text=False
        )


def test_widths_that_follow_from_others():
    for changes, embedding, head in (
        ({}, 12, 10),
        ({"projection": 7}, 12, 7),
        ({"embedding": 5}, 5, 10),
        ({"tied": True, "head": "adaptive"}, 10, 10),
        ({"tied": True, "head": "adaptive", "projection": 7}, 7, 7),
    ):
        chosen = settings.Settings(units="12,10", **changes)
        assert (chosen.embedding_width, chosen.head_width) == (embedding, head)


def test_each_optimizer_has_a_learning_rate():
    for optimizer, rate in settings.LEARNING_RATES.items():
        chosen = settings.Settings(optimizer=optimizer)
        assert chosen.learning_rate == rate
        assert settings.Settings(learning_rate=0.5).learning_rate == 0.5


def test_flags_and_settings_have_the_same_defaults(tmp_path):
    values = train.flags.values
    for name in values:
        values[name].unparse()
    values(["train"])
    fields = [field.name for field in dataclasses.fields(settings.Settings)]
    everything = {name: values[name].value for name in fields}
    assert settings.Settings(**everything) == settings.Settings()
    assert train.chosen_settings(tmp_path, resume=True) == settings.Settings()


def test_flags_are_read_without_tensorflow():
    code = (
        "import sys\n"
        "from examples.language_model import train\n"
        "train.flags.values(['train', '--units=8,4'])\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    path = "\n".join(sys.path)
    code = f"import sys; sys.path[:] = {path!r}.split('\\n')\n{code}"
    subprocess.run([sys.executable, "-c", code], check=True)
