"""Debian's packages: what they are, and which packages they depend on.

`apt-get update` stores the two indexes that this module reads: "Packages", with
the dependencies of each package, and "Translation-en", with the descriptions.
"""

import pathlib
import re
import subprocess
from typing import NamedTuple

LISTS = "/var/lib/apt/lists"
_CAT_FILE = "/usr/lib/apt/apt-helper"
_UPDATE = "run as root: apt-get -o Acquire::Languages=en update"
_END_OF_NAME = re.compile(r"[ (|:\[]")


class Package(NamedTuple):
    """A binary package.

    Attributes:
      name: such as "python3-numpy".
      source: the source package. All binary packages of one source package have
        similar descriptions.
      text: the name and the description.
      dependencies: the sorted names of the packages, real or virtual, that this
        package depends on. Packages of the same source do not count. Where
        alternatives exist, the first one counts.
    """

    name: str
    source: str
    text: str
    dependencies: list[str]


def read(folder=LISTS):
    """Returns a list of the Packages that have a description.

    Raises:
      OSError: an index is missing.
    """
    packages = _index(folder, "*_Packages*")
    descriptions = {
        entry["Description-md5"]: entry["Description-en"]
        for entry in _index(folder, "*_Translation-en*")
    }
    sources = {entry["Package"]: _source(entry) for entry in packages}
    found = {}
    for entry in packages:
        name, source = entry["Package"], _source(entry)
        description = descriptions.get(entry.get("Description-md5"))
        if description is not None and name not in found:
            dependencies = {
                other
                for other in _dependencies(entry)
                if other and sources.get(other) != source
            }
            found[name] = Package(
                name, source, f"{name} {description}", sorted(dependencies)
            )
    return list(found.values())


def _index(folder, pattern):
    """Returns the entries of the files of one kind."""
    paths = sorted(
        path
        for path in pathlib.Path(folder).glob(pattern)
        # Later updates of a package would be the same example again.
        if "security" not in path.name and "updates" not in path.name
    )
    if not paths:
        raise OSError(f"{folder} has no file {pattern}; {_UPDATE}")
    return [entry for path in paths for entry in _entries(_text(path))]


def _text(path):
    """Returns the text of an index, which apt may have compressed."""
    command = [_CAT_FILE, "cat-file", str(path)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout


def _entries(text):
    """Yields a dict of the fields of each entry of an index."""
    for paragraph in text.split("\n\n"):
        fields, name = {}, None
        for line in paragraph.splitlines():
            if line.startswith(" "):
                fields[name] += f"\n{line}"
            else:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def _source(entry):
    """Returns the name of the source package of an entry."""
    return entry.get("Source", entry["Package"]).split()[0]


def _dependencies(entry):
    """Yields the first alternative of each dependency of an entry."""
    for field in ("Depends", "Pre-Depends"):
        for dependency in entry.get(field, "").split(","):
            yield _END_OF_NAME.split(dependency.strip())[0]
