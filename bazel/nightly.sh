#!/usr/bin/env bash
# What takes too long for .ci/run: the wheel for every GPU; the C++ tests, and every
# op from Python, with usual and with hostile arguments, with the sanitizers; then
# every fuzz target.
#
#   bazel/nightly.sh [SECONDS]    of each fuzz target; 300 unless given
#
# Each of the three configurations compiles the kernels anew, which takes minutes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly seconds=${1:-300}

failed=()

step() {
  local name=$1 start=$SECONDS
  shift
  printf '\n=== %s: %s\n' "$name" "$*"
  "$@" || failed+=("$name")
  printf '=== %s took %d s\n' "$name" $((SECONDS - start))
}

if command -v nvcc >/dev/null; then
  step 'wheel for every GPU' bash -c \
    'TF_HSM_CUDA=1 ./configure.sh && bazel build --config=all_gpus //:wheel'
fi
step configure env TF_HSM_CUDA=0 ./configure.sh
step 'asan and ubsan' bazel test --config=asan --config=ubsan //cc/... \
  //tests/ops:{every_op,handles,hostile,refusals}_test \
  //tests/ops:{allowed,answers,conformance,embedding_bags,label_tree}_test
step tsan bazel test --config=tsan //cc/...

# New inputs are kept, and what fails is written to the folder of the target.
if grep -q '^build:fuzz' .bazelrc.configured; then
  for source in cc/fuzz/corpus/*; do
    target=${source##*/}
    found=$PWD/fuzz/$target
    mkdir -p "$found/inputs"
    step "fuzz $target" bazel run --config=fuzz "//cc/fuzz:$target" -- \
      -max_total_time="$seconds" -max_len=400 -artifact_prefix="$found/" \
      "$found/inputs" "$PWD/$source"
  done
else
  failed+=('fuzz: no clang with libFuzzer')
fi

if ((${#failed[@]})); then
  printf '\n=== FAILED: %s\n' "${failed[*]}"
  exit 1
fi
printf '\n=== PASSED in %d s\n' "$SECONDS"
