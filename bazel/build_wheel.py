"""Builds a wheel out of files from anywhere.

A README.md among them becomes the description in the metadata.

Usage: build_wheel.py PLATFORM WHEEL PLACE=FILE...

PLATFORM is the last part of the wheel's tag, WHEEL the file to write, PLACE
where FILE belongs in the source tree that setuptools sees.
"""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import warnings

import setuptools
from setuptools.command.bdist_wheel import bdist_wheel


class _Distribution(setuptools.Distribution):
    """One with native code, so that it installs into platlib."""

    def has_ext_modules(self) -> bool:
        return True


def _wheel_command(platform: str) -> type[bdist_wheel]:
    class AnyPython(bdist_wheel):
        """Tags a library that does not use Python's binary interface."""

        def get_tag(self) -> tuple[str, str, str]:
            return "py3", "none", platform

    return AnyPython


def description(readme: str) -> str:
    """Returns a README without what is only in the repository.

    An index shows the text alone: images and links to other files would be
    broken there.
    """
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)\n*", "", readme)
    return re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)


def main(platform: str, wheel: str, *places: str) -> None:
    """Builds `wheel` in a temporary source tree."""
    output = pathlib.Path(wheel).resolve()
    with tempfile.TemporaryDirectory() as folder:
        for place, file in (item.split("=", 1) for item in places):
            target = pathlib.Path(folder, place)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        readme = pathlib.Path(folder, "README.md")
        readme.write_text(description(readme.read_text()))
        os.chdir(folder)
        # Meant for people who run setup.py; setuptools' own builds hide it too.
        warnings.filterwarnings("ignore", "setup.py install is deprecated")
        setuptools.setup(
            distclass=_Distribution,
            cmdclass={"bdist_wheel": _wheel_command(platform)},
            script_args=["--quiet", "bdist_wheel"],
        )
        (built,) = pathlib.Path("dist").glob("*.whl")
        if built.name != output.name:
            raise ValueError(f"built {built.name}, expected {output.name}")
        shutil.move(built, output)


if __name__ == "__main__":
    # Two builds of the same files are the same bytes.
    os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")
    main(*sys.argv[1:])
