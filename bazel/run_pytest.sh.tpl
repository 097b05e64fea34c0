#!/usr/bin/env bash
# Runs pytest on {files}.
set -euo pipefail

cd "$TEST_SRCDIR/{workspace}"
export HOME="$TEST_TMPDIR" TMPDIR="$TEST_TMPDIR"
export MPLBACKEND=Agg TF_CPP_MIN_LOG_LEVEL=2
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$PWD"

# AddressSanitizer must be the first library of a process, and finds what throws
# in the next; TensorFlow leaks.
if [[ -n ${TF_HSM_PRELOAD:-} ]]; then
  export LD_PRELOAD=$TF_HSM_PRELOAD ASAN_OPTIONS=detect_leaks=0
fi

args=(-p no:cacheprovider --color=no --durations=3 --rootdir=.)
args+=(--junitxml="${XML_OUTPUT_FILE:-$TEST_TMPDIR/test.xml}")
if [[ -n ${TESTBRIDGE_TEST_ONLY:-} ]]; then
  args+=(-k "$TESTBRIDGE_TEST_ONLY")
fi
exec "{python}" -m pytest "${args[@]}" {files} "$@"
