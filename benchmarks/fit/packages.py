"""Files of Debian packages: installed, or downloaded without root."""

import pathlib
import re
import subprocess


def files(package, pattern, folder):
    """Returns the files of a package that match a pattern, sorted.

    Args:
      package: the name of a Debian package. If another package holds its files
        (`linux-doc` depends on `linux-doc-6.1`), that one is unpacked too.
      pattern: a pattern of paths below the root, as of `pathlib.Path.glob`.
      folder: a folder to unpack the package into, if it is not installed.

    Raises:
      OSError: the package is not installed and cannot be downloaded.
    """
    if pathlib.Path(f"/var/lib/dpkg/info/{package}.list").exists():
        found = _matches(pathlib.Path("/"), pattern)
        if found:
            return found
    folder = pathlib.Path(folder) / package
    folder.mkdir(exist_ok=True)
    try:
        shown = _run(folder, "apt-cache", "show", "--no-all-versions", package)
        parts = re.findall(rf"{re.escape(package)}-[\d.]+\d", shown)
        _run(folder, "apt-get", "download", *{package, *parts})
        for path in folder.glob("*.deb"):
            _run(folder, "dpkg-deb", "-x", path.name, ".")
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        raise OSError(
            f"the Debian package {package} is not installed and apt-get cannot "
            f"download it: {reason.splitlines()[-1]}. Install it with apt-get "
            f"install {package}, or leave its task out of --tasks."
        ) from error
    found = _matches(folder, pattern)
    if not found:
        raise OSError(f"the Debian package {package} has no files {pattern}")
    return found


def indexes():
    """Returns the text of the Packages indexes that `apt-get update` stores.

    Raises:
      OSError: there are none.
    """
    folder = pathlib.Path("/var/lib/apt/lists")
    paths = _matches(folder, "*Packages*")
    if not paths:
        raise OSError(
            f"{folder} has no Packages index: run apt-get update as root, or "
            "leave packages out of --tasks."
        )
    return "\n\n".join(
        _run(folder, "/usr/lib/apt/apt-helper", "cat-file", str(path))
        for path in paths
    )


def _matches(root, pattern):
    return sorted(
        path
        for path in root.glob(pattern)
        if path.is_file() and not path.is_symlink()
    )


def _run(folder, *command):
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout
