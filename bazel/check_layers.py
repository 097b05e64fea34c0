"""Checks that the C++ folders include only what they may.

A folder below cc/ may include its own files and those of the folders that its
BUILD names as direct deps. cc/core and cc/cuda include nothing of TensorFlow.
Only cc/cuda/device includes CUDA. Tests may include any of cc/.
"""

import ast
import pathlib
import re
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)')
_CUDA = re.compile(
    r"(cu(da|blas|rand|sparse|b/)|nvrtc|thrust/|mma\.h|cooperative)"
)
_INCLUDES_CUDA = "cc/cuda/device"
# TensorFlow, and what comes with it.
_TENSORFLOW = ("tensorflow/", "tsl/", "xla/", "absl/", "Eigen/")


def _deps(build):
    """The folders of cc/ that a BUILD file names as deps, but for tests."""
    folders = set()
    for statement in ast.parse(build.read_text()).body:
        value = getattr(statement, "value", None)
        parts = [value] if isinstance(statement, ast.Assign) else []
        if isinstance(value, ast.Call) and "test" not in ast.unparse(
            value.func
        ):
            parts += [k.value for k in value.keywords if k.arg == "deps"]
        for part in parts:
            labels = re.findall(r"'//(cc/[^':]*)", ast.unparse(part))
            folders.update(labels)
    return folders


def _complaint(folder, deps, header):
    """What is wrong with a file of `folder` that includes `header`, or None."""
    if header.startswith(_TENSORFLOW):
        if folder.startswith(("cc/core", "cc/cuda")):
            return "only cc/kernels and cc/ops may include TensorFlow"
    elif _CUDA.match(header):
        if folder != _INCLUDES_CUDA:
            return f"only {_INCLUDES_CUDA} may include CUDA"
    elif header.startswith("cc/") and (
        header.rpartition("/")[0] not in {*deps, folder}
    ):
        may = ", ".join(sorted(deps)) or "no other folder"
        return f"{folder} may include {may} (deps in {folder}/BUILD)"
    return None


def main():
    """Prints every include that breaks a rule; returns the exit status."""
    bad = 0
    for build in sorted(_ROOT.glob("cc/**/BUILD")):
        folder = str(build.parent.relative_to(_ROOT))
        deps = _deps(build)
        for path in sorted(build.parent.iterdir()):
            if path.suffix not in (".h", ".cc", ".cu") or "_test" in path.name:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                include = _INCLUDE.match(line)
                wrong = include and _complaint(folder, deps, include[1])
                if wrong:
                    bad += 1
                    print(
                        f"{path.relative_to(_ROOT)}:{number}: "
                        f"includes {include[1]}, but {wrong}"
                    )
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
