"""`python -m tf_hsm estimate`."""

import json

import keras
import pytest

import tf_hsm
from tests.support import programs
from tf_hsm.cli import program

HEAD = {"num_classes": "10k", "width": 30, "batch": 8}
BODY = HEAD | {"body": "lstm:2x32", "vocabulary": "1k", "length": 5}
STEP = BODY | {
    **{"optimizer": "sgd", "head_optimizer": "adagrad", "dtype": "bfloat16"},
    **{"replicas": 4, "network": "10GB", "labels_per_example": 2.5},
    **{"memory": "24GB", "machine": "nvidia-h100", "corpus_tokens": "1M"},
}


def run(capsys, *flags, status=0, **values):
    """Returns what `estimate` with these flags prints, or its error."""
    flags = [*flags, *(f"--{name}={value}" for name, value in values.items())]
    found, *lines = programs.outcome(capsys, program.main, "estimate", *flags)
    assert found == status and not lines[not status]
    return "\n".join(lines[bool(status)])


def as_json(estimate):
    return json.loads(json.dumps(estimate.to_dict()))


@pytest.mark.parametrize(
    "flags", [HEAD, STEP, BODY | {"counts": "zipf", "replicas": 2}]
)
def test_flags_are_the_arguments_of_the_function(capsys, flags):
    found = tf_hsm.estimate(**{"body": None, **flags})
    assert json.loads(run(capsys, "--json", **flags)) == as_json(found)


def test_the_machine_and_its_source(capsys):
    text = run(capsys, **HEAD)
    assert "on 2 cores with AVX-512 (not this machine, which " in text
    text = run(capsys, **HEAD, machine="nvidia-h100")
    assert "on nvidia-h100 (from its data sheet): " in text


def test_several_heads(capsys):
    heads = {"heads": "full,sampled,adaptive", "corpus_tokens": "1M"}
    text = run(capsys, **BODY, **heads)
    assert len([x for x in text.splitlines() if x.startswith("lstm 32")]) == 3
    assert "hours/epoch" in text


def test_a_saved_model(capsys, tmp_path):
    inputs = keras.Input((5,), dtype="int32")
    x = keras.layers.Embedding(50, 6)(inputs)
    head = tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.two_level(50))
    model = keras.Model(inputs, head(x))
    model.save(tmp_path / "model.keras")
    text = run(capsys, model=tmp_path / "model.keras", batch=4)
    assert "HierarchicalSoftmax" in text
    assert f"{50 * 6 + head.tree.num_rows * 7:,}" in text


def test_heads_of_a_tree(capsys, tmp_path):
    tree, counts = tf_hsm.Tree.huffman([9, 5, 3, 2, 1]), [9, 5, 3, 2, 1]
    tree.save(tmp_path / "tree.npz")
    (tmp_path / "counts.txt").write_text("9\n5\n3\n2\n1\n")
    flags = {
        "tree": tmp_path / "tree.npz",
        "counts": tmp_path / "counts.txt",
        **{"width": 3, "batch": 2, "head_optimizer": "adagrad"},
    }
    for name, heads in (
        ("label_tree", {"heads": "label_tree"}),
        ("hierarchical", {}),
    ):
        head = tf_hsm.estimation.head(
            name, tree, counts=counts, optimizer="adagrad"
        )
        found = tf_hsm.estimate(None, head, width=3, batch=2)
        text = run(capsys, "--json", **flags, **heads)
        assert json.loads(text) == as_json(found)
    text = run(capsys, **flags, heads="label_tree,hierarchical")
    assert "label_tree" in text and "hierarchical" in text


def test_largest(capsys):
    flags = {"num_classes": "1M", "width": 100, "memory": "4GB"}
    text = run(capsys, **flags, largest="batch")
    value = int(text.split()[4].replace(",", ""))
    assert value == tf_hsm.estimation.largest(**flags)
    values = json.loads(run(capsys, "--json", **flags, largest="batch"))
    assert values["largest"] == values["batch"] == value


def test_the_largest_width_is_that_of_the_body(capsys):
    flags = {"body": "lstm:64", "length": 8, "batch": 4, "memory": "1GB"}
    text = run(capsys, **flags, largest="width")
    value = int(text.split()[4].replace(",", ""))
    assert f"lstm {value}: a training step" in text


def test_machines(capsys):
    assert "nvidia-h100" in run(capsys, machine="list")


def test_shards_on_replicas(capsys, tmp_path):
    tree = tmp_path / "tree.npz"
    tf_hsm.Tree.two_level(9).save(tree)
    for head in (HEAD, {"tree": tree, "width": 3, "batch": 8}):
        flags = head | {"replicas": 8, "shards": 8}
        assert "give head_optimizer" in run(capsys, status=2, **flags)
        text = run(capsys, **flags, head_optimizer="rowwise_adagrad")
        assert "on each of 8 devices" in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--batch is missing"),
        (["--batch=4"], "nothing to estimate"),
        (["--batch=x"], "--batch"),
        (["--batch=4", "--model=none.keras"], "none.keras"),
        (["--batch=4", "--model=a", "--body=lstm:3"], "--model and --body"),
        (["--batch=4", "--tree=a", "--heads=full"], "--tree and --heads"),
        (
            ["--tree=a", "--heads=label_tree,full"],
            "only hierarchical and label",
        ),
        (["--num_classes=9", "--largest=batch"], "--largest needs --memory"),
        (
            ["--body=lstm:8", "--largest=length", "--memory=1GB"],
            "--batch is missing",
        ),
    ],
)
def test_bad_flags(capsys, flags, message):
    (line,) = run(capsys, *flags, status=2).splitlines()
    assert message in line
