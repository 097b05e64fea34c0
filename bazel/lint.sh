#!/usr/bin/env bash
# Checks format and lint of every Python and C++ file, what may import what, where
# private interfaces are used, and links and targets in the documents; with --fix,
# repairs format and lint.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [[ ! -x .venv/bin/ruff ]]; then
  echo 'lint: run ./configure.sh first' >&2
  exit 1
fi

format=(--check)
lint=()
clang=(--dry-run -Werror)
if [[ ${1:-} == --fix ]]; then
  format=()
  lint=(--fix)
  clang=(-i)
fi

status=0
# A repair of lint may leave format to repair, but not the other way round.
.venv/bin/ruff check "${lint[@]}" . || status=1
.venv/bin/ruff format "${format[@]}" . || status=1
.venv/bin/lint-imports --no-cache --no-logo || status=1
find cc benchmarks examples tests -name '*.cc' -o -name '*.cu' -o -name '*.h' | sort |
  xargs .venv/bin/clang-format "${clang[@]}" || status=1
.venv/bin/python bazel/check_layers.py || status=1
.venv/bin/python bazel/check_private.py || status=1
.venv/bin/python bazel/check_documents.py || status=1
exit "$status"
