"""A tree as a file (.npz) and as a JSON-able dict."""

import base64
import contextlib
import os
import secrets
import zlib

import numpy as np

from tf_hsm import _tree_builders, _tree_checks

_FORMAT = "tf_hsm.Tree"
_VERSION = 1


def save(path, arrays):
    """Writes the file in full beside `path`, then moves it there."""
    path = os.path.realpath(os.fspath(path))
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            np.savez(
                file,
                format=np.array(_FORMAT),
                version=np.array(_VERSION),
                **arrays._asdict(),
            )
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def load(path):
    """Reads what `save` wrote; ValueError for any other file."""
    with open(path, "rb") as file:
        try:
            return _read(file)
        # On damaged bytes numpy and zipfile raise errors of many types.
        except Exception as error:
            raise ValueError(
                f"cannot load {os.fspath(path)!r} as a tf_hsm.Tree; the file "
                f"is foreign, damaged or cut short: {error}"
            ) from error


def to_config(arrays):
    """Returns a dict of numbers and strings, small for regular trees."""
    return {
        "version": _VERSION,
        **{name: _pack(array) for name, array in arrays._asdict().items()},
    }


def from_config(config):
    """Returns the arrays that `to_config` wrote; ValueError if malformed."""
    try:
        _check_version(config["version"])
        return _tree_builders.TreeArrays(
            *(
                _unpack(config[field])
                for field in _tree_builders.TreeArrays._fields
            )
        )
    except (
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        zlib.error,
    ) as error:
        raise ValueError(
            f"not a config of tf_hsm.Tree.get_config: {error!r}"
        ) from error


def _read(file):
    with np.load(file, allow_pickle=False) as members:
        if members["format"].tolist() != _FORMAT:
            raise ValueError("it holds something else")
        _check_version(members["version"].tolist())
        return _tree_builders.TreeArrays(
            *(members[name] for name in _tree_builders.TreeArrays._fields)
        )


def _check_version(version):
    if version != _VERSION:
        raise ValueError(
            f"it has version {version!r}; this tf_hsm reads version {_VERSION}"
        )


def _pack(array):
    """Packs an int64 array: differences in a narrow type, zlib, base64."""
    steps = np.diff(array, prepend=0)
    bound = max(int(steps.max()), -int(steps.min()) - 1)
    dtype = np.min_scalar_type(-bound - 1).newbyteorder("<")
    packed = zlib.compress(steps.astype(dtype).tobytes())
    return {
        "dtype": dtype.str,
        "size": array.size,
        "data": base64.b64encode(packed).decode("ascii"),
    }


def _unpack(field):
    """Reverses `_pack`; never makes more bytes than the field announces."""
    dtype = np.dtype(field["dtype"])
    if dtype.kind != "i":
        raise ValueError(f"dtype {dtype} is not an integer")
    size = _tree_checks.check_int("size", field["size"], 0)
    num_bytes = size * dtype.itemsize
    packed = base64.b64decode(field["data"], validate=True)
    data = zlib.decompressobj().decompress(packed, num_bytes + 1)
    if len(data) != num_bytes:
        raise ValueError(f"{size} numbers are not {len(data)} bytes")
    return np.cumsum(np.frombuffer(data, dtype), dtype=np.int64)
