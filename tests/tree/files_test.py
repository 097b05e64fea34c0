"""Files and configs of trees."""

import json
import pickle
import zipfile

import numpy as np
import pytest

from tests.support.tree_reference import random_parents
from tests.support.trees import damages
from tf_hsm.tree import Tree

TREES = {
    "single": Tree.balanced(1, 2),
    "flat": Tree.balanced(300, 300),
    "balanced": Tree.balanced(1013, 7),
    "huffman": Tree.huffman(10**6 // np.arange(1, 400)),
    "chain": Tree.from_parents(np.arange(-1, 500)),
    "random": Tree.from_parents(random_parents(3)),
}


@pytest.mark.parametrize("name", TREES)
def test_round_trips(tmp_path, name):
    tree = TREES[name]
    path = tmp_path / "a tree"
    tree.save(path)
    assert Tree.load(path) == tree and Tree.load(str(path)) == tree
    assert [entry.name for entry in tmp_path.iterdir()] == ["a tree"]
    config = json.loads(json.dumps(tree.get_config()))
    assert Tree.from_config(config) == tree


def test_config_of_a_regular_tree_is_small():
    config = Tree.two_level(1_000_000).get_config()
    assert len(json.dumps(config)) < 10_000


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"group_offsets": None},
        {"class_rows": {"dtype": "<f8", "size": 1, "data": ""}},
        {"class_rows": {"dtype": "|i1", "size": 4, "data": "***"}},
        {"class_rows": {"dtype": "|i1", "size": 4, "data": "AAAA"}},
        {"class_rows": {"dtype": "none", "size": 4, "data": "AAAA"}},
        {"class_rows": {"dtype": "|i1", "size": -1, "data": "AAAA"}},
        {"class_rows": {"dtype": "|i1", "size": 1 << 99, "data": "AAAA"}},
        {"class_rows": {"dtype": "|i1", "data": "AAAA"}},
    ],
)
def test_bad_config(change):
    config = Tree.two_level(4).get_config()
    with pytest.raises(ValueError, match="not a config of"):
        Tree.from_config({**config, **change})
    with pytest.raises(ValueError, match="not a config of"):
        Tree.from_config({})


def test_config_of_another_length():
    config = Tree.two_level(4).get_config()
    for size in (3, 5):
        config["class_rows"]["size"] = size
        with pytest.raises(ValueError, match=f"{size} numbers"):
            Tree.from_config(config)


def test_load_refuses_other_files(tmp_path):
    path = tmp_path / "tree.npz"
    with pytest.raises(FileNotFoundError):
        Tree.load(path)
    tree = Tree.huffman(np.arange(20))
    tree.save(path)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"tree\.npz.*cut short"):
            Tree.load(path)
    path.write_bytes(pickle.dumps(tree))
    with pytest.raises(ValueError, match="foreign"):
        Tree.load(path)
    with open(path, "wb") as file:
        np.save(file, np.arange(3))
    with pytest.raises(ValueError, match="foreign"):
        Tree.load(path)
    np.savez(path, weights=np.arange(3))
    with pytest.raises(ValueError, match="foreign"):
        Tree.load(path)
    np.savez(path, format="another")
    with pytest.raises(ValueError, match="something else"):
        Tree.load(path)
    np.savez(path, format="tf_hsm.Tree", version=99)
    with pytest.raises(ValueError, match="version 99"):
        Tree.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("format.npy", b"garbage")
    with pytest.raises(ValueError, match="foreign"):
        Tree.load(path)


def test_load_survives_damage(tmp_path):
    path = tmp_path / "tree.npz"
    tree = Tree.huffman(np.arange(20))
    tree.save(path)
    for _ in damages(path, 400):
        try:
            assert Tree.load(path) == tree
        except ValueError as error:
            assert "tree.npz" in str(error)


@pytest.mark.parametrize("moment", ["write", "fsync", "replace"])
def test_interrupted_save_leaves_the_old_file(tmp_path, monkeypatch, moment):
    path = tmp_path / "tree.npz"
    old = Tree.two_level(100)
    old.save(path)

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    def write_some(file, **kwargs):
        file.write(b"half a file")
        interrupt()

    with monkeypatch.context() as patch:
        if moment == "write":
            patch.setattr("numpy.savez", write_some)
        else:
            patch.setattr(f"os.{moment}", interrupt)
        with pytest.raises(KeyboardInterrupt):
            Tree.two_level(200).save(path)
    assert Tree.load(path) == old
    assert [entry.name for entry in tmp_path.iterdir()] == ["tree.npz"]


def test_save_follows_a_link_and_keeps_to_the_umask(tmp_path):
    target = tmp_path / "folder" / "tree.npz"
    target.parent.mkdir()
    link = tmp_path / "link.npz"
    link.symlink_to(target)
    Tree.two_level(5).save(link)
    assert link.is_symlink() and Tree.load(target) == Tree.two_level(5)
    (tmp_path / "plain").touch()
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode
