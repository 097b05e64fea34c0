"""Takes from TensorFlow's wheel what one kind of GPU does not need, in place.

    python tests/gpu/slim_wheel.py tensorflow-*.whl 90

keeps the machine code for sm_90, and drops that for other GPUs, PTX, symbols
and headers. Machine code that goes becomes zeros, which compress to nothing:
a library keeps its addresses. The new wheel is not compressed.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

_MAGIC = 0xBA55ED50  # of a container of nvcc's, in the section .nv_fatbin
_CUBIN = 2  # the kind of machine code; PTX is 1


def section(library):
    """Returns the offset and the size of .nv_fatbin; None if there is none."""
    printed = subprocess.run(
        ["readelf", "-SW", library], check=True, capture_output=True, text=True
    ).stdout
    for line in printed.splitlines():
        if ".nv_fatbin" in line:
            fields = line.split("]")[1].split()
            return int(fields[3], 16), int(fields[4], 16)
    return None


def keep_only(data, begin, size, sm):
    """Sets to zero what is not for `sm`; returns the bytes that stay."""
    kept, at, end = 0, begin, begin + size
    while at < end - 16:
        magic, _, header, length = struct.unpack_from("<IHHQ", data, at)
        if magic != _MAGIC:
            at += 8
            continue
        at += header
        stop = at + length
        while at < stop:
            kind, _, header, length = struct.unpack_from("<HHIQ", data, at)
            (of_sm,) = struct.unpack_from("<I", data, at + 28)
            at += header
            if (kind, of_sm) == (_CUBIN, sm):
                kept += length
            else:
                data[at : at + length] = bytes(length)
            at += length
    return kept


def slim(library, sm):
    found = section(library)
    if found is not None:
        data = bytearray(library.read_bytes())
        kept = keep_only(data, *found, sm)
        if not kept:
            raise SystemExit(f"{library.name} has no machine code for sm_{sm}")
        library.write_bytes(data)
        mib = f"{kept >> 20} of {found[1] >> 20} MiB"
        print(f"{library.name}: {mib} of machine code stay")
    subprocess.run(["strip", "--strip-all", library], check=True)


def main(wheel, sm):
    wheel = pathlib.Path(wheel)
    made = wheel.with_suffix(".new")
    with (
        tempfile.TemporaryDirectory() as folder,
        zipfile.ZipFile(wheel) as source,
        zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as target,
    ):
        for name in source.namelist():
            if name.startswith("tensorflow/include/") or name.endswith("/"):
                continue
            path = pathlib.Path(source.extract(name, folder))
            if path.suffixes == [".so", ".2"]:
                slim(path, int(sm))
            target.write(path, name)
            path.unlink()
    made.replace(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
