"""A tree as a file (.npz) and as a JSON-able dict."""

import base64
import contextlib
import errno
import os
import secrets
import zipfile
import zlib

import numpy as np

from tf_hsm import _checks
from tf_hsm.tree.arrays import TreeArrays
from tf_hsm.tree.names import Names

_FORMAT = "tf_hsm.Tree"
_VERSION = 1
# Members of the file that only trees with names have: the fields of `Names`.
_NAMES = "names_utf8", "names_offsets"
# Member of a file, and key of a dict, that only pinned trees have.
_PINNED = "pinned"
# Member of a file, and key of a dict, that only trees with counts have.
_COUNTS = "counts"
# The arrays in a dict, as NumPy writes them.
_DTYPES = "|i1", "<i2", "<i4", "<i8"
_FULL = "the disk or a quota is full, and an earlier file is as it was"
# Why a file cannot be written, where users can do more than the system says.
_REASONS = {
    errno.EISDIR: "the path is a folder, and must be a file",
    errno.EEXIST: "the path is a device or a pipe, and must be a file",
    errno.ENOENT: "the folder of the file does not exist",
    errno.ENOTDIR: "the folder of the file is itself a file",
    errno.EACCES: "the folder of the file is not yours to write",
    errno.EPERM: "the folder of the file is not yours to write",
    errno.EROFS: "the folder of the file is read-only",
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
}


def save(path, arrays, names, pinned, counts):
    """Writes the file in full beside `path`, then moves it there."""
    members = arrays._asdict()
    if names is not None:
        members |= zip(_NAMES, names, strict=True)
    if pinned:
        members[_PINNED] = np.array(True)
    if counts is not None:
        members[_COUNTS] = counts
    path = os.fsdecode(path)
    try:
        _write(path, members)
    except OSError as error:
        reason = _REASONS.get(error.errno, error.strerror or str(error))
        raise OSError(
            error.errno, f"the tree was not saved: {reason}", path
        ) from error


def _write(path, members):
    target = os.path.realpath(path)
    if os.path.isdir(target) or path.endswith(os.sep):
        raise OSError(errno.EISDIR, None)
    # A device must not be replaced by a file.
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(errno.EEXIST, None)
    # A name that is never longer than those that are possible here.
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            np.savez(
                file,
                format=np.array(_FORMAT),
                version=np.array(_VERSION),
                **members,
            )
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise


def load(path):
    """Reads the arguments of `Tree` that `save` wrote; else a ValueError."""
    with open(path, "rb") as file:
        try:
            _refuse_compressed(file)
            return _read(file)
        # On damaged bytes numpy and zipfile raise errors of many types.
        except Exception as error:
            raise ValueError(
                f"cannot load {os.fspath(path)!r} as a tf_hsm.Tree; the file "
                f"is foreign, damaged or cut short: {error}"
            ) from error


def to_config(arrays, names, pinned, counts):
    """Returns a dict of numbers and strings, small for regular trees."""
    config = {
        "version": _VERSION,
        **{name: pack(array) for name, array in arrays._asdict().items()},
    }
    if names is not None:
        config["names"] = {
            "utf8": _deflate(names.utf8),
            "offsets": pack(names.offsets),
        }
    if pinned:
        config[_PINNED] = True
    if counts is not None:
        config[_COUNTS] = pack_counts(counts)
    return config


def from_config(config):
    """Returns the arguments of `Tree`; ValueError if `config` is malformed."""
    try:
        _check_version(config["version"])
        tree = {field: unpack(config[field]) for field in TreeArrays._fields}
        names = config.get("names")
        if names is not None:
            offsets = unpack(names["offsets"])
            utf8 = _inflate(names["utf8"], max(offsets[-1], 0))
            tree["names"] = Names(np.frombuffer(utf8, np.uint8), offsets)
        counts = config.get(_COUNTS)
        if counts is not None:
            tree[_COUNTS] = unpack_counts(counts)
        return tree | {_PINNED: _check_pinned(config.get(_PINNED, False))}
    except (
        ValueError,
        TypeError,
        LookupError,
        OverflowError,
        zlib.error,
    ) as error:
        raise ValueError(
            f"not a config of tf_hsm.Tree.get_config: {error!r}"
        ) from error


def _refuse_compressed(file):
    """Raises a ValueError if the members are larger than the file.

    So no more memory is taken than the file has bytes: `save` compresses none.
    """
    with zipfile.ZipFile(file) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > os.fstat(file.fileno()).st_size:
        raise ValueError(f"its members claim {size} bytes, more than it has")
    file.seek(0)


def _read(file):
    with np.load(file, allow_pickle=False) as members:
        if members["format"].tolist() != _FORMAT:
            raise ValueError("it holds something else")
        _check_version(members["version"].tolist())
        tree = {field: members[field] for field in TreeArrays._fields}
        if not set(_NAMES).isdisjoint(members.files):
            tree["names"] = Names(*(members[field] for field in _NAMES))
        if _PINNED in members.files:
            tree[_PINNED] = _check_pinned(members[_PINNED][()])
        if _COUNTS in members.files:
            tree[_COUNTS] = members[_COUNTS]
        return tree


def _check_pinned(pinned):
    if not isinstance(pinned, bool | np.bool_):
        raise ValueError(
            f"{_PINNED} is of type {type(pinned).__name__}; it must be a bool"
        )
    return pinned


def _check_version(version):
    if version != _VERSION:
        raise ValueError(
            f"it has version {version!r}; this tf_hsm reads version {_VERSION}"
        )


def pack(array):
    """Packs an int64 array: differences in a narrow type, zlib, base64."""
    steps = np.diff(array, prepend=0)
    bound = max(int(steps.max()), -int(steps.min()) - 1)
    dtype = np.min_scalar_type(-bound - 1).newbyteorder("<")
    return {
        "dtype": dtype.str,
        "size": array.size,
        "data": _deflate(steps.astype(dtype)),
    }


def unpack(field):
    """Reverses `pack`; never makes more bytes than the field announces."""
    # NumPy would evaluate some other strings.
    if field["dtype"] not in _DTYPES:
        raise ValueError(
            f"dtype {str(field['dtype'])[:20]} is none of {', '.join(_DTYPES)}"
        )
    dtype = np.dtype(field["dtype"])
    size = _checks.check_int("size", field["size"], 0)
    try:
        data = _inflate(field["data"], size * dtype.itemsize)
    except ValueError as error:
        raise ValueError(f"{size} numbers of {dtype}: {error}") from error
    return np.cumsum(np.frombuffer(data, dtype), dtype=np.int64)


def pack_counts(counts):
    """Packs int64 or float64 counts, as JSON can hold them."""
    return {
        "is_float": counts.dtype.kind == "f",
        **pack(counts.view(np.int64)),
    }


def unpack_counts(field):
    """Reverses `pack_counts`."""
    return unpack(field).view(np.float64 if field["is_float"] else np.int64)


def _deflate(array):
    """Returns the bytes of an array, by zlib and base64, as a str."""
    return base64.b64encode(zlib.compress(array)).decode("ascii")


def _inflate(text, num_bytes):
    """Reverses `_deflate`; never makes more bytes than these."""
    packed = base64.b64decode(text, validate=True)
    data = zlib.decompressobj().decompress(packed, num_bytes + 1)
    if len(data) != num_bytes:
        raise ValueError(f"there must be {num_bytes} bytes, not {len(data)}")
    return data
