#!/usr/bin/env bash
# Builds the documentation site; a warning fails the build.
#
#   docs/site/build.sh OUT                   replaces OUT/html, and OUT/sources
#   PYTHON=python3 docs/site/build.sh OUT    with another Python than .venv's
set -euo pipefail

if (($# != 1)); then
  echo 'usage: docs/site/build.sh OUT' >&2
  exit 2
fi
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
python=${PYTHON:-.venv/bin/python}

if ! "$python" -c 'import furo, myst_parser, sphinx' 2>/dev/null; then
  echo "site: run '$python -m pip install -r docs/site/requirements.txt'" \
    'first: Sphinx is missing' >&2
  exit 1
fi
rm -rf "$out/sources" "$out/html"
mkdir "$out/sources"
cp docs/site/index.md "$out/sources"
cp --parents ./*.md {benchmarks,docs,tests}/*.md examples/*/*.md docs/*.svg \
  docs/{,*/}*.png "$out/sources"
PYTHONPATH=. TF_CPP_MIN_LOG_LEVEL=3 "$python" -m sphinx --quiet \
  --fail-on-warning --keep-going --doctree-dir "$out/doctrees" \
  --conf-dir docs/site "$out/sources" "$out/html"
echo "site: open $out/html/index.html"
