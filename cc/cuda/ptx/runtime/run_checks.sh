#!/usr/bin/env bash
# Runs checks of gpu_check on the interpreter, each in a process of its own:
# the named ones, or all but the checks of large trees.
#
#   run_checks.sh PROGRAM [NAME ...]
set -uo pipefail
program=$1
shift
if (($# > 0)); then
  names=("$@")
else
  mapfile -t names < <(
    "$program" --list --small
    "$program" --list | grep '^wide '
  )
fi

failed=()
for name in "${names[@]}"; do
  variables=()
  case $name in
  # In a forged tree, groups may share rows.
  garbage*) variables=(TF_HSM_PTX_RACES=0) ;;
  # A tile of all columns must not fit.
  'two_level, slabs') variables=(TF_HSM_PTX_SHARED_BYTES=$((24 << 10))) ;;
  # Two blocks fit with 16 examples, not with 32.
  *'half items') variables=(TF_HSM_PTX_SHARED_BYTES=$((58 << 10))) ;;
  esac
  printf '=== %s\n' "$name"
  env "${variables[@]}" "$program" --only="$name" || failed+=("$name")
done
if ((${#failed[@]})); then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
