"""Files and configs of trees."""

import copy
import errno
import json
import os
import pickle
import resource
import zipfile

import numpy as np
import pytest

from tests.support.tree_reference import random_parents
from tests.support.trees import chain
from tf_hsm.tree import Tree

# Any str is a name.
ODD = ["", "a", "é", "", "猫 cat", "a\nb", "\0", "𝄞", "x" * 500, "\ud800", ""]
TREES = {
    "single": Tree.balanced(1, 2),
    "flat": Tree.balanced(300, 300),
    "balanced": Tree.balanced(1013, 7),
    "huffman": Tree.huffman(10**6 // np.arange(1, 400)),
    "chain": Tree.from_parents(np.arange(-1, 500)),
    "random": Tree.from_parents(random_parents(3)),
    "paths": Tree.from_paths([("a", "b"), ("c",), ("a", "d")]),
    "names": Tree.balanced(len(ODD), len(ODD)).with_class_names(ODD),
    "halves": Tree.two_level(9).with_counts(np.arange(9) / 2),
    "pinned": Tree.huffman(10**6 // np.arange(1, 204), pinned=True),
    "pinned chain": chain(50).pin(),
    "pinned names": Tree.from_nested({"a": ["b", "c"], "d": None}).pin(),
    "pruned": Tree.huffman(np.arange(20)).prune([19, 18]).tree,
}


@pytest.mark.parametrize("name", TREES)
def test_round_trips(tmp_path, name):
    tree = TREES[name]
    path = tmp_path / "a tree"
    tree.save(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a tree"]
    for same in (
        Tree.load(path),
        Tree.load(str(path)),
        Tree.from_config(json.loads(json.dumps(tree.get_config()))),
        copy.deepcopy(tree),
        *(
            pickle.loads(pickle.dumps(tree, protocol))
            for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
        ),
    ):
        assert same == tree and same.pinned == tree.pinned
        for one, other in (
            (same.names, tree.names),
            (same.counts, tree.counts),
        ):
            if other is None:
                assert one is None
            else:
                assert one.tolist() == other.tolist()
                assert one.dtype == other.dtype and not one.flags.writeable


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
        {"class_rows": {"dtype": "9" * 5000, "size": 4, "data": "AAAA"}},
        {"class_rows": {"dtype": ["|i1"], "size": 4, "data": "AAAA"}},
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


FAILURES = [
    (KeyboardInterrupt, None, None),
    (OSError, errno.ENOSPC, "the disk or a quota is full, and an earlier file"),
    (OSError, errno.EDQUOT, "the disk or a quota is full"),
    (OSError, errno.EROFS, "the folder of the file is read-only"),
    (OSError, errno.EACCES, "the folder of the file is not yours to write"),
    (OSError, errno.EIO, "Input/output error"),
]


@pytest.mark.parametrize("error, code, reason", FAILURES)
@pytest.mark.parametrize(
    "moment",
    ["tf_hsm.tree.files.open", "numpy.savez", "os.fsync", "os.replace"],
)
def test_a_failed_save(tmp_path, monkeypatch, moment, error, code, reason):
    """The old file stays whole, no other is left, and the error says why."""
    path = tmp_path / "tree.npz"
    old = Tree.two_level(100)
    old.save(path)

    def fail(file, *_, **members):
        if members:
            file.write(b"half a file")
        raise error(code, "Input/output error", "some.tmp")

    with monkeypatch.context() as patch:
        patch.setattr(moment, fail, raising=False)
        with pytest.raises(error, match=reason) as caught:
            Tree.two_level(200).save(path)
    if error is OSError:
        assert caught.value.errno == code
        assert caught.value.filename == str(path)
        assert ".tmp" not in str(caught.value)
    assert Tree.load(path) == old
    assert os.listdir(tmp_path) == ["tree.npz"]


def save_beside_an_earlier_file(folder, error, name="tree.npz"):
    """Fails to save over another tree: it stays whole, and alone."""
    old = Tree.two_level(100)
    old.save(folder / "tree.npz")
    before = sorted(os.listdir(folder))
    with pytest.raises(error) as caught:
        Tree.two_level(20_000).save(folder / name)
    assert Tree.load(folder / "tree.npz") == old
    assert sorted(os.listdir(folder)) == before
    assert caught.value.filename == str(folder / name)
    assert ".tmp" not in str(caught.value)
    return str(caught.value)


def test_a_full_disk(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (10_000, 100_000):  # bytes of the 167,000 that are needed
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            message = save_beside_an_earlier_file(tmp_path, OSError)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "the tree was not saved: the disk or a quota is full" in message


def test_paths_that_cannot_be_saved_to(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, error, reason in (
        ("folder", IsADirectoryError, "the path is a folder, and must be a"),
        ("none/tree.npz", FileNotFoundError, "the folder of the file does not"),
        ("folder/file/x", NotADirectoryError, "the folder of the file is its"),
        ("pipe", FileExistsError, "the path is a device or a pipe"),
        ("x" * 256, OSError, "File name too long"),
    ):
        message = save_beside_an_earlier_file(tmp_path, error, name)
        assert f"the tree was not saved: {reason}" in message
    tree = Tree.two_level(5)
    for path in ("", f"{tmp_path}/new/", "/dev/null"):
        with pytest.raises(OSError, match="was not saved: the path is a") as e:
            tree.save(path)
        assert e.value.filename == path
    assert not (tmp_path / "new").exists() and not os.path.isfile("/dev/null")
    # The longest name, and one of bytes.
    for path in (tmp_path / ("x" * 255), os.fsencode(tmp_path / "bytes")):
        tree.save(path)
        assert Tree.load(path) == tree


def test_load_takes_no_more_memory_than_the_file(tmp_path):
    path = tmp_path / "tree.npz"
    tree = Tree.two_level(5)
    members = {**tree._arrays._asdict(), "format": "tf_hsm.Tree", "version": 1}
    members["class_rows"] = np.zeros(10**6, np.int64)
    np.savez_compressed(path, **members)
    with pytest.raises(ValueError, match=r"claim 80\d+ bytes, more than"):
        Tree.load(path)
    tree.save(path)
    whole = path.read_bytes()
    for claim in ("99999", "99999999999"):  # a shape [5] of the header
        header = b"'shape': (5,), }" + b" " * len(claim)
        assert header in whole
        claimed = f"'shape': ({claim}5,), }}".encode()
        path.write_bytes(whole.replace(header, claimed))
        with pytest.raises(ValueError, match=r"tree\.npz"):
            Tree.load(path)


def test_save_follows_a_link_and_keeps_to_the_umask(tmp_path):
    target = tmp_path / "folder" / "tree.npz"
    target.parent.mkdir()
    link = tmp_path / "link.npz"
    link.symlink_to(target)
    Tree.two_level(5).save(link)
    assert link.is_symlink() and Tree.load(target) == Tree.two_level(5)
    (tmp_path / "plain").touch()
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode
