"""The text that Debian's packages bring along, from where they are installed.

Nothing is downloaded: a package that is not there is named, with the command
that installs it.
"""

import gzip
import pathlib
import re
import zlib

from examples.corpora.debian import packages

NAMES = (*packages.PACKAGES, *packages.GROUPS)

_GZIP = b"\x1f\x8b"
# A longer file becomes several documents of about this size, in characters.
_LONG = 1_000_000
_PIECE = 100_000


def files(name, root="/"):
    """Returns the files of a text, `{name: path}`; raises as `documents`."""
    return {
        f"{text}/{file}": path
        for text, paths in _files_of(name, root).items()
        for file, path in paths.items()
    }


def documents(name, root="/"):
    """Returns an iterator over (name of the document, its text).

    A document is a file, or a part of a long one. Their order and names are
    the same for the same version of the packages.

    Args:
        name: one of `NAMES`: of a package in the table, or of a group.
        root: where the packages are installed or unpacked.

    Raises:
        ValueError: there is no such name; or, in the midst, a file is damaged.
        FileNotFoundError: a package is not installed.
    """
    return _read_all(_files_of(name, root))


def _files_of(name, root):
    """The files of each package, `{text: {name: path}}`."""
    if name not in NAMES:
        raise ValueError(
            f"--corpus=debian:{name}: there is no such text. The names are "
            f"{', '.join(NAMES)}."
        )
    texts = packages.GROUPS.get(name, (name,))
    files = {
        text: _files(packages.PACKAGES[text], pathlib.Path(root))
        for text in texts
    }
    missing = [
        packages.PACKAGES[text].name for text in texts if not files[text]
    ]
    if missing:
        raise FileNotFoundError(
            f"--corpus=debian:{name}: {root} lacks the text of "
            f"{', '.join(missing)}; apt-get install {' '.join(missing)} brings "
            f"it.{_if_left_out(missing, root)}"
        )
    return files


def _files(package, root):
    """The files of a package: their paths below its folder, and whole."""
    folders = sorted(root.glob(package.folder), key=_by_version)
    for folder in reversed(folders):
        found = {
            path.relative_to(folder).as_posix(): path
            for path in folder.glob(package.files)
            if path.is_file()
        }
        kept = {
            name: found[name]
            for name in sorted(found)
            if not (package.skipped and re.search(package.skipped, name))
        }
        if kept:
            return kept
    return {}


def _by_version(path):
    """Sorts 6.9 before 6.12."""
    return [
        (part.isdecimal(), int(part) if part.isdecimal() else part)
        for part in re.split(r"(\d+)", str(path))
    ]


def _if_left_out(packages, root):
    """What to say of packages that are installed without their documents."""
    info = pathlib.Path(root, "var/lib/dpkg/info")
    installed = [p for p in packages if (info / f"{p}.list").exists()]
    if not installed:
        return ""
    return (
        f" Of {', '.join(installed)} the package is installed, but not the "
        "text: dpkg leaves out /usr/share/doc where a file in "
        "/etc/dpkg/dpkg.cfg.d has path-exclude, as in many containers. Remove "
        "that line, and apt-get install --reinstall."
    )


def _read_all(files):
    for text, paths in files.items():
        read = packages.PACKAGES[text].read
        for name, path in paths.items():
            for number, piece in enumerate(_pieces(_decode(path))):
                running = read(piece)
                if running.strip():
                    part = f"#{number}" if number else ""
                    yield f"{text}/{name}{part}", running


def _decode(path):
    """The text of a file: packed by gzip or dictzip, or not."""
    data = path.read_bytes()
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(
                f"{path} is damaged: {error}. apt-get install --reinstall its "
                "package (dpkg --search says which)."
            ) from error
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n")


def _pieces(text):
    """Cuts a long text at empty lines, or line ends where there are none."""
    begin = 0
    while len(text) > _LONG and len(text) - begin > _PIECE:
        least = begin + _PIECE
        end = text.find("\n\n", least, least + _PIECE)
        if end < 0:
            end = text.find("\n", least)
        if end < 0:
            break
        yield text[begin:end]
        begin = end
    yield text[begin:]
