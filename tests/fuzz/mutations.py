"""Damage to files: of any bytes, of a text, of what an archive packs."""

import base64
import io
import json
import zipfile
import zlib

import numpy as np

_INTEGERS = [
    *(-(2**63), -(2**31), -129, -2, -1, 0, 1, 2, 3, 7, 127, 255, 256, 65536),
    *(2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1),
]
_TOKENS = [
    *("\ufeff", "\0", "\v", "\f", "\r", "\n", "\n\n", "\r\n", "\t", "  ", " "),
    *("\u2028", "\x85", "\u00a0", "\u3000", "٣", "５", "²", "1_0", "+", "-"),
    *("1e3", "1e999", "nan", "inf", "0x1", ".", "/", "//", "猫", "\U0001d11e"),
    *("9" * 25, "9" * 5000, "0" * 50, str(2**63), str(2**63 - 1), "a" * 3000),
    *("(", "[", "{", "'", '"', "\\", "L", "None", "True", "()", "\\N{x}", "#"),
]
_DTYPES = ["<i8", "<i4", ">i8", "<u8", "u1", "<f8", "?", "<c8", "<U3", "S0"]


def damage(rng, data, others, of_bytes=False):
    """Returns the bytes of a file with one to four changes.

    Args:
      rng: a `numpy.random.Generator`.
      data: the bytes.
      others: bytes of files of the same kind, for parts of them.
      of_bytes: whether these change whatever they are; else mostly what an
        archive or a config packs, so that no checksum tells.
    """
    if data.startswith(b"PK") and not of_bytes and rng.random() < 0.8:
        return _damage_members(rng, data)
    if data.startswith(b"{") and not of_bytes and rng.random() < 0.8:
        return _damage_config(rng, data)
    data = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        change = _CHANGES[rng.integers(len(_CHANGES))]
        begin, end = _slice(rng, len(data))
        data = bytearray(change(rng, data, begin, end, others))
    return bytes(data)


def _slice(rng, size):
    begin = int(rng.integers(size + 1))
    length = int(rng.integers(1, 2 ** rng.integers(1, 12)))
    return begin, min(begin + length, size)


def _flip(rng, data, begin, end, others):
    if begin < len(data):
        data[begin] ^= 1 << rng.integers(8)
    return data


def _noise(rng, data, begin, end, others):
    data[begin:end] = rng.bytes(end - begin)
    return data


def _cut(rng, data, begin, end, others):
    return data[:begin] if rng.random() < 0.3 else data[:begin] + data[end:]


def _repeat(rng, data, begin, end, others):
    times = min(int(rng.integers(2, 40)), 1 + 50_000 // (1 + end - begin))
    return data[:begin] + data[begin:end] * times + data[end:]


def _splice(rng, data, begin, end, others):
    other = others[rng.integers(len(others))]
    return data[:begin] + other[slice(*_slice(rng, len(other)))] + data[end:]


def _number(rng, data, begin, end, others):
    value = _INTEGERS[rng.integers(len(_INTEGERS))]
    size = 2 ** int(rng.integers(4))
    packed = (value % 2 ** (8 * size)).to_bytes(size, "little")
    return data[:begin] + packed + data[begin + size :]


def _token(rng, data, begin, end, others):
    token = _TOKENS[rng.integers(len(_TOKENS))].encode()
    return data[:begin] + token + data[begin + rng.integers(2) :]


_CHANGES = [_flip, _noise, _cut, _repeat, _splice, _number, _token, _token]


def _damage_config(rng, data):
    """Changes a field of a tree's config, or the bytes that it packs."""
    config = json.loads(data)
    field = config
    while True:
        name = list(field)[rng.integers(len(field))]
        if not isinstance(field[name], dict):
            break
        field = field[name]
    if rng.random() < 0.1:
        del field[name]
    elif name in ("data", "utf8"):
        packed = zlib.decompress(base64.b64decode(field[name]))
        packed = zlib.compress(damage(rng, packed, [packed]))
        field[name] = base64.b64encode(packed).decode()
    elif rng.random() < 0.8:
        values = [*_INTEGERS, *_DTYPES, None, 1.5, 10**30, [], {}, True]
        field[name] = values[rng.integers(len(values))]
    return json.dumps(config).encode()


def _damage_members(rng, data):
    """Changes the members of an .npz file, whose checksums stay right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = list(members)[rng.integers(len(members))]
    kind = rng.integers(6)
    if kind == 0:
        del members[name]
    elif kind == 1:
        members[name] = damage(rng, members[name], [*members.values()])
    else:
        array = np.load(io.BytesIO(members[name]))
        file = io.BytesIO()
        np.save(file, _damage_array(rng, array))
        members[name] = file.getvalue()
    compression = zipfile.ZIP_DEFLATED if rng.random() < 0.05 else 0
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return file.getvalue()


def _damage_array(rng, array):
    if array.dtype.kind not in "iu" or rng.random() < 0.2:
        dtype = _DTYPES[rng.integers(len(_DTYPES))]
        array = np.zeros(array.shape, dtype)
    elif array.size:
        array = array.copy()
        for _ in range(rng.integers(1, 4)):
            value = _INTEGERS[rng.integers(len(_INTEGERS))]
            if rng.random() < 0.5:
                value = int(array.flat[rng.integers(array.size)])
                value += int(rng.integers(-1, 2))
            wrapped = np.uint64(value % 2**64).astype(array.dtype)
            array.flat[rng.integers(array.size)] = wrapped
    if rng.random() < 0.2:
        array = np.resize(array, rng.integers(0, 40))
    if rng.random() < 0.05:
        array = array.reshape(1, -1)
    return array
