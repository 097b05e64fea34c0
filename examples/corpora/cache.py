"""Folders that are made once, whole or not at all."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil

_UNFINISHED = ".unfinished-"


def default_root():
    """The folder for what can be made again, of this user."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(root) / "tf_hsm" / "corpora"


def key(value):
    """A short name that differs where `value`, given to `json`, does."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def made(root, name, make):
    """Returns the folder `root/name`, which `make` has filled.

    If another process is making it, this one waits and takes what it has made.

    Args:
        root: a folder; made if it is not there. What killed processes left in
            it is removed.
        name: of the folder.
        make: called with an empty folder unless `root/name` is there. If it
            raises or is killed, `root/name` does not become.
    """
    root = pathlib.Path(root)
    root.mkdir(parents=True, exist_ok=True)
    folder = root / name
    if folder.is_dir():
        return folder
    _remove_abandoned(root)
    unfinished = root / f"{_UNFINISHED}{name}"
    with _locked(root, name):
        if folder.is_dir():
            return folder
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            make(unfinished)
            _write_to_disk(unfinished)
            os.rename(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return folder


@contextlib.contextmanager
def _locked(root, name, flags=0):
    """Holds the lock of the folder `name`; raises `OSError` if it cannot."""
    with open(root / f".{name}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if flags & fcntl.LOCK_NB:
                raise
            print("Another process reads it; waiting ...", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_abandoned(root):
    """Removes unfinished folders whose makers were killed."""
    for folder in root.glob(f"{_UNFINISHED}*"):
        name = folder.name.removeprefix(_UNFINISHED)
        # In use: it cannot be locked.
        with (
            contextlib.suppress(BlockingIOError, PermissionError),
            _locked(root, name, fcntl.LOCK_NB),
        ):
            shutil.rmtree(folder, ignore_errors=True)


def _write_to_disk(folder):
    for path in [*folder.rglob("*"), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
