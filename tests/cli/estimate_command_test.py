"""`python -m tf_hsm estimate`."""

import json

import keras
import pytest

import tf_hsm
from tf_hsm.cli import program

HEAD = ["estimate", "--num_classes=10k", "--width=30", "--batch=8"]


def run(capsys, *flags):
    assert program.main(list(flags)) in (0, None)
    return capsys.readouterr().out


def fail(capsys, *flags):
    try:
        code = program.main(list(flags))
    except SystemExit as error:
        code = error.code
    assert code not in (0, None)
    return capsys.readouterr().err


def test_a_head(capsys):
    text = run(capsys, *HEAD, "--memory=24GB", "--head_optimizer=adagrad")
    assert "fits in 24 GB: yes" in text
    assert "hierarchical" in text


def test_the_machine_and_its_source(capsys):
    text = run(capsys, *HEAD)
    assert "on 2 cores with AVX-512 (not this machine, which " in text
    text = run(capsys, *HEAD, "--machine=nvidia-h100")
    assert "on nvidia-h100 (from its data sheet): " in text


def test_the_default_is_what_the_package_advises(capsys):
    """10 million classes in 24 GB: what takes it, and what does not."""
    head = ["--num_classes=10M", "--width=300", "--batch=400", "--memory=24GB"]
    text = run(capsys, "estimate", *head)
    assert "lazy_adam" in text.splitlines()[0]
    assert "lazy_adam takes" in text and "optimizer=lazy_adam" not in text
    assert text.strip().endswith("which fits")
    adam = run(capsys, "estimate", *head, "--optimizer=adam").splitlines()
    assert "adam takes" in adam[-3] and "temporary tables" in adam[-3]
    assert "with optimizer=lazy_adam: " in adam[-2]
    assert "optimizer=lazy_adam and head_optimizer=rowwise_adagrad" in adam[-1]
    own = "--head_optimizer=rowwise_adagrad"
    text = run(capsys, "estimate", *head, own)
    assert "fits in 24 GB: yes" in text and " takes " not in text


def test_a_label_tree(capsys):
    flags = [*HEAD, "--heads=label_tree", "--json"]
    one, other = (
        json.loads(run(capsys, *flags, f"--labels_per_example={n}"))
        for n in (1, 2.5)
    )
    assert other["flops"]["forward"] > one["flops"]["forward"]


def test_a_body_and_heads(capsys):
    text = run(
        capsys,
        *HEAD,
        "--body=lstm:2x32",
        "--vocabulary=1k",
        "--length=5",
        "--heads=full,sampled,adaptive",
        "--corpus_tokens=1M",
        "--counts=zipf",
    )
    assert len([x for x in text.splitlines() if x.startswith("lstm 32")]) == 3
    assert "hours/epoch" in text


def test_json_is_that_of_the_function(capsys):
    values = json.loads(run(capsys, *HEAD, "--json", "--optimizer=sgd"))
    found = tf_hsm.estimate(
        None, num_classes=10_000, width=30, batch=8, optimizer="sgd"
    )
    assert values == json.loads(json.dumps(found.to_dict()))


def test_a_saved_model(capsys, tmp_path):
    inputs = keras.Input((5,), dtype="int32")
    x = keras.layers.Embedding(50, 6)(inputs)
    head = tf_hsm.layers.HierarchicalSoftmax(tf_hsm.Tree.two_level(50))
    model = keras.Model(inputs, head(x))
    model.save(tmp_path / "model.keras")
    text = run(
        capsys, "estimate", f"--model={tmp_path}/model.keras", "--batch=4"
    )
    assert "HierarchicalSoftmax" in text
    assert f"{50 * 6 + head.tree.num_rows * 7:,}" in text


def test_a_tree_and_counts(capsys, tmp_path):
    tf_hsm.Tree.huffman([5, 3, 2, 1]).save(tmp_path / "tree.npz")
    (tmp_path / "counts.txt").write_text("5\n3\n2\n1\n")
    text = run(
        capsys,
        "estimate",
        f"--tree={tmp_path}/tree.npz",
        f"--counts={tmp_path}/counts.txt",
        "--width=3",
        "--batch=2",
    )
    assert "hierarchical" in text


def test_heads_of_a_tree(capsys, tmp_path):
    tree, counts = tf_hsm.Tree.huffman([9, 5, 3, 2, 1]), [9, 5, 3, 2, 1]
    tree.save(tmp_path / "tree.npz")
    (tmp_path / "counts.txt").write_text("9\n5\n3\n2\n1\n")
    flags = ["estimate", f"--tree={tmp_path}/tree.npz", "--width=3"]
    flags += ["--batch=2", "--head_optimizer=adagrad", "--json"]
    flags += [f"--counts={tmp_path}/counts.txt"]
    values = json.loads(run(capsys, *flags, "--heads=label_tree"))
    head = tf_hsm.estimation.head(
        "label_tree", tree, counts=counts, optimizer="adagrad"
    )
    found = tf_hsm.estimate(None, head, width=3, batch=2)
    assert values == json.loads(json.dumps(found.to_dict()))
    text = run(
        capsys,
        *(flag for flag in flags if flag != "--json"),
        "--heads=label_tree,hierarchical",
    )
    assert "label_tree" in text
    assert "hierarchical" in text


def test_largest(capsys):
    flags = ["estimate", "--num_classes=1M", "--width=100", "--memory=4GB"]
    text = run(capsys, *flags, "--largest=batch")
    value = int(text.split()[4].replace(",", ""))
    assert value == tf_hsm.estimation.largest(
        num_classes="1M", width=100, memory="4GB"
    )
    values = json.loads(run(capsys, *flags, "--largest=batch", "--json"))
    assert values["largest"] == values["batch"] == value


def test_the_largest_width_is_that_of_the_body(capsys):
    flags = ["--body=lstm:64", "--length=8", "--batch=4", "--memory=1GB"]
    text = run(capsys, "estimate", *flags, "--largest=width")
    value = int(text.split()[4].replace(",", ""))
    assert f"lstm {value}: a training step" in text


def test_machines(capsys):
    text = run(capsys, "estimate", "--machine=list")
    assert "nvidia-h100" in text
    slow = json.loads(run(capsys, *HEAD, "--json"))["milliseconds"]
    flags = [*HEAD, "--json", "--machine=nvidia-h100"]
    assert json.loads(run(capsys, *flags))["milliseconds"] < slow


def test_shards_on_replicas(capsys, tmp_path):
    tree = str(tmp_path / "tree.npz")
    tf_hsm.Tree.two_level(9).save(tree)
    for head in (HEAD[1:], [f"--tree={tree}", "--width=3", "--batch=8"]):
        flags = ["estimate", *head, "--replicas=8", "--shards=8"]
        assert "give head_optimizer" in fail(capsys, *flags)
        text = run(capsys, *flags, "--head_optimizer=rowwise_adagrad")
        assert "on each of 8 devices" in text


def test_replicas(capsys):
    text = run(capsys, *HEAD, "--replicas=4", "--network=10GB")
    assert "on each of 4 devices" in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--batch is missing"),
        (["--batch=4"], "nothing to estimate"),
        (["--batch=x"], "--batch"),
        (["--batch=4", "--body=lstmm:3"], "another form"),
        (["--batch=4", "--model=none.keras"], "none.keras"),
        (["--batch=4", "--model=a", "--body=lstm:3"], "--model and --body"),
        (["--batch=4", "--tree=a", "--heads=full"], "--tree and --heads"),
        (
            ["--tree=a", "--heads=label_tree,full"],
            "only hierarchical and label",
        ),
        (["--batch=4", "--num_classes=9"], "width"),
        (["--num_classes=9", "--largest=batch"], "--largest needs --memory"),
        (
            ["--body=lstm:8", "--largest=length", "--memory=1GB"],
            "--batch is missing",
        ),
        (
            ["--num_classes=9", "--width=2", "--batch=4", "--machine=x"],
            "machine",
        ),
    ],
)
def test_bad_flags(capsys, flags, message):
    text = fail(capsys, "estimate", *flags)
    assert message in text
    assert "Traceback" not in text
