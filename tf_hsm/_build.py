"""The build of the package: its version, and a hash of its files."""

import functools
import hashlib
import pathlib

VERSION = "0.1.0"
_FOLDER = pathlib.Path(__file__).parent
_SUFFIXES = (".py", ".so")
_DIGITS = 12  # hexadecimal


@functools.cache
def fingerprint():
    """Returns the hash of the modules and of the op library, 12 digits.

    Two builds of one version differ in it where a file differs. A wheel has the
    fingerprint of the source tree that it was built of.
    """
    digest = hashlib.sha256()
    paths = {
        path.relative_to(_FOLDER).as_posix(): path
        for path in _FOLDER.rglob("*")
        if path.suffix in _SUFFIXES
    }
    for name in sorted(paths):
        content = hashlib.sha256(paths[name].read_bytes()).hexdigest()
        digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()[:_DIGITS]


def hash_of(path):
    """Returns the hash of one file, 12 digits."""
    content = pathlib.Path(path).read_bytes()
    return hashlib.sha256(content).hexdigest()[:_DIGITS]
