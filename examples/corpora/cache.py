"""Folders that a function fills once, whole or not at all."""

import hashlib
import json
import os
import pathlib
import tempfile


def default_root():
    """Returns the cache folder of this user."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(root) / "tf_hsm" / "corpora"


def key(value):
    """Returns a short name that differs where `value`, as JSON, does."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def made(root, name, make):
    """Returns the folder `root/name`; `make` fills it if it is missing.

    The folder gets its name in one rename. A killed process leaves a folder
    `.unfinished-*` in `root`, which anyone may delete. If two processes make
    the same folder at once, both take the folder of the first.

    Args:
        root: A folder; made if it is missing.
        name: The name of the folder.
        make: A function of an empty folder, which it fills.
    """
    folder = pathlib.Path(root) / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=".unfinished-", dir=root
    ) as unfinished:
        whole = pathlib.Path(unfinished) / name
        whole.mkdir()
        make(whole)
        try:
            os.rename(whole, folder)
        except OSError:
            if not folder.is_dir():
                raise
    return folder
