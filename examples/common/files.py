"""Writing such that a kill at any moment leaves the earlier file whole."""

import contextlib
import json
import os
import pathlib
import shutil


@contextlib.contextmanager
def atomic(path):
    """Yields the name of a file that becomes `path` if the block ends well.

    The file has the name of `path`, in a folder of its own beside it. What a
    killed run left in that folder is removed by the next.
    """
    path = pathlib.Path(path)
    unfinished = path.with_name(f".unfinished-{path.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        yield unfinished / path.name
        _sync(unfinished / path.name)
        rename(unfinished / path.name, path)
    finally:
        shutil.rmtree(unfinished)


def rename(source, path):
    """Renames a file within its file system; returns once that is on disk."""
    os.replace(source, path)
    _sync(pathlib.Path(path).parent)


def write_json(path, value):
    """Writes `value` as JSON, atomically."""
    with atomic(path) as name, open(name, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, ensure_ascii=False)


def _sync(path):
    """Waits until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
