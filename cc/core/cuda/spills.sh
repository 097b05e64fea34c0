#!/bin/sh
# Prints registers, stack and spilled bytes of every kernel, as rows of a table.
# Fails if a compiler warns, or if a hot kernel spills: those at wide groups, of
# paths, of small groups and of merged rows.
#   cc/core/cuda/spills.sh [file.cu ...]        minutes per file
#   ARCHS="75 80 90" cc/core/cuda/spills.sh     sm_80 and sm_90 unless named
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
cd "$folder/../../.."
nvcc=${NVCC:-nvcc}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0
[ $# -gt 0 ] || set -- "$folder"/*.cu
for source; do
  for arch in ${ARCHS:-80 90}; do
    log=$out/log
    "$nvcc" -std=c++17 -O3 -DNDEBUG -I. -arch="sm_$arch" -Xptxas -v \
      -Xcompiler -Wall,-Wextra -c "$source" -o "$out/object" >"$log" 2>&1 || {
      cat "$log"
      exit 1
    }
    if grep -i 'warning' "$log"; then failed=1; fi
    c++filt <"$log" | awk -v arch="sm_$arch" '
      /Compiling entry function/ {
        name = $0
        sub(/.*entry function ./, "", name)
        sub(/. for .sm.*/, "", name)
      }
      /bytes stack frame/ { stack = $1; spilled = $5 + $9 }
      /Used [0-9]+ registers/ {
        if (name ~ /cub::/) next
        for (i = 1; i <= NF; ++i) if ($i == "Used") registers = $(i + 1)
        gsub(/tf_hsm::|gpu::|\(anonymous namespace\)::|void /, "", name)
        sub(/\(.*/, "", name)
        hot = name ~ /Wide|WalkPaths|SmallRows|MergeRows/
        bad = hot && spilled > 0
        printf "| %s | `%s` | %d | %d | %d |%s\n", arch, name, registers,
          stack, spilled, bad ? " SPILLS" : ""
        if (bad) failed = 1
      }
      END { exit failed }' || failed=1
  done
done
exit $failed
