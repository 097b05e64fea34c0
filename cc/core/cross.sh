#!/usr/bin/env bash
# Compiles cc/core and its tests for another kind of processor, and runs them on
# an emulator, each test by itself:
#
#   apt-get install g++-aarch64-linux-gnu qemu-user-static
#   cc/core/cross.sh OUT [COMPILER [EMULATOR]]
#
# COMPILER is aarch64-linux-gnu-g++ unless given, EMULATOR qemu-aarch64-static.
# Needs no Bazel. The exit status is 1 if a test fails. Takes half an hour of one
# core, most of it in the emulator.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if (($# == 0)); then
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
mkdir -p "$1/objects"
readonly out=$(cd "$1" && pwd) compiler=${2:-aarch64-linux-gnu-g++}
readonly emulator=${3:-qemu-aarch64-static}
readonly flags=(-std=c++17 -O2 -I. -Wno-psabi -DTF_HSM_ISA=baseline)

rm -f "$out"/objects/*
mapfile -t tests < <(find cc/core -name '*_test.cc' | sort)
mapfile -t sources < <(find cc/core -name '*.cc' ! -name '*_test.cc' | sort)
objects=()
for source in "${sources[@]}" "${tests[@]}"; do
  while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n || true; done
  object=$out/objects/${source//\//_}.o
  "$compiler" "${flags[@]}" -c "$source" -o "$object" &
  [[ $source == *_test.cc ]] || objects+=("$object")
done
wait
failed=0
for test in "${tests[@]}"; do
  "$compiler" -static -pthread "$out/objects/${test//\//_}.o" "${objects[@]}" \
    -o "$out/test"
  if "$emulator" "$out/test" >"$out/log" 2>&1; then
    echo "passed  $test"
  else
    echo "FAILED  $test"
    tail -n 5 "$out/log"
    failed=1
  fi
done
exit $failed
