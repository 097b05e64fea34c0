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

# Of several shards each has every n-th file.
files=() number=0
for file in {files}; do
  if ((number++ % ${TEST_TOTAL_SHARDS:-1} == ${TEST_SHARD_INDEX:-0})); then
    files+=("$file")
  fi
done
if [[ -n ${TEST_SHARD_STATUS_FILE:-} ]]; then touch "$TEST_SHARD_STATUS_FILE"; fi

args=(-p no:cacheprovider --color=no --durations=3 --rootdir=.)
args+=(--junitxml="${XML_OUTPUT_FILE:-$TEST_TMPDIR/test.xml}")
if [[ -n ${TESTBRIDGE_TEST_ONLY:-} ]]; then
  args+=(-k "$TESTBRIDGE_TEST_ONLY")
fi
exec "{python}" -m pytest "${args[@]}" "${files[@]}" "$@"
