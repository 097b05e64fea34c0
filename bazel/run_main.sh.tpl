#!/usr/bin/env bash
# Runs {files} in the folder that `bazel run` was called from.
set -euo pipefail

root="${RUNFILES_DIR:-$(cd "$(dirname "$0")" && pwd)/$(basename "$0").runfiles}/{workspace}"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-3}"
cd "${BUILD_WORKING_DIRECTORY:-.}"

# The first entry of sys.path would be that folder: a checkout there would hide
# the built package.
exec "{python}" -c '
import runpy, sys
del sys.path[0]
runpy.run_module(sys.argv.pop(1), None, "__main__", alter_sys=True)
' "{module}" "$@"
