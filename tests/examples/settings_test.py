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
        ({"units": "512,0"}, "--units=512,0: must be at least 1"),
        ({"units": "512;256"}, "--units=512;256: must be a whole number, or"),
        ({"units": "512,"}, "--units=512,: must be a whole number"),
        ({"units": ""}, "--units=: must have a number"),
        ({"layers": 0}, "--layers=0: must be at least 1"),
        (
            {"units": "8,4", "layers": 3},
            "--layers=3: but --units=8,4 are 2 layers; leave out --layers",
        ),
        ({"embedding": 0}, "--embedding=0: must be at least 1"),
        ({"projection": -1}, "--projection=-1: must be at least 1"),
        ({"cutoffs": "9,9"}, "--cutoffs=9,9: must ascend"),
        ({"min_count": 0}, "--min_count=0: must be at least 1"),
        ({"format": "pdf"}, "--format=pdf: must be auto or one of documents"),
        ({"tokens": "bytes"}, "--tokens=bytes: must be one of words, code"),
        ({"dropout": 1.0}, "--dropout=1.0: must be below 1"),
        ({"dropout": float("nan")}, "--dropout=nan: must be at least 0"),
        ({"l2": -1.0}, "--l2=-1.0: must be at least 0"),
        ({"clipnorm": -1.0}, "--clipnorm=-1.0: must be at least 0"),
        ({"decay_from": 0}, "--decay_from=0: must be at least 1"),
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
            "--in_place: --clipnorm=1 needs the gradient of all weights",
        ),
        ({"in_place": True, "l2": 1e-6}, "--in_place: --l2=1e-06 needs"),
    ),
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        settings.Settings(**changes)


def test_a_single_width_is_that_of_all_layers():
    twice = settings.Settings(units=24, layers=2)
    assert twice.units == (24, 24)
    for units in ("24,24", [24, 24], ["24", "24"], (24, 24)):
        assert settings.Settings(units=units) == twice
    assert settings.Settings(units="24,24", layers=2) == twice
    assert settings.Settings(layers=1) == settings.Settings()
    # Copies with one thing changed.
    assert dataclasses.replace(twice, units=8).units == (8,)
    assert dataclasses.replace(twice, units=8, layers=3).units == (8, 8, 8)
    assert dataclasses.replace(twice, head="full").units == (24, 24)
    # What a checkpoint has.
    saved = json.loads(json.dumps(dataclasses.asdict(twice)))
    assert settings.Settings(**saved) == twice
    assert settings_lib.differences(twice, settings.Settings(units=8)) == [
        "--units: 24,24 before, 8 now"
    ]


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
    given = values.flag_values_dict()
    fields = [field.name for field in dataclasses.fields(settings.Settings)]
    everything = {name: given[name] for name in (*fields, "layers")}
    assert settings.Settings(**everything) == settings.Settings()
    assert train._settings(given, tmp_path) == settings.Settings()


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
