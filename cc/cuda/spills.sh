#!/bin/sh
# Prints registers, stack and spilled bytes (stores and loads) of every kernel, as
# rows of a table. Fails if a compiler warns, or if a kernel of losses and steps spills:
# more than 320 bytes in BackwardLarge and HotGradients, any in others.
#   cc/cuda/spills.sh [file.cu ...]     seconds per file, all unless named
#   ARCHS=75 cc/cuda/spills.sh          sm_80 and sm_90 unless named
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
cd "$folder/../.."
nvcc=${NVCC:-nvcc}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
log=$out/log
gpus=
for arch in ${ARCHS:-80 90}; do
  gpus="$gpus -gencode=arch=compute_$arch,code=sm_$arch"
done
failed=0
# shellcheck disable=SC2046  # no name has a space
[ $# -gt 0 ] || set -- $(find cc/cuda -name '*.cu' | sort)
for source; do
  # shellcheck disable=SC2086  # one word per architecture
  "$nvcc" -std=c++17 -O3 -DNDEBUG -I. $gpus -Wno-deprecated-gpu-targets \
    -Xptxas -v -Xcompiler -Wall,-Wextra -c "$source" -o "$out/object" \
    >"$log" 2>&1 || {
    cat "$log"
    exit 1
  }
  if grep -i 'warning' "$log"; then failed=1; fi
  c++filt <"$log" | awk '
    /Compiling entry function/ {
      arch = name = $0
      sub(/.*entry function ./, "", name)
      sub(/. for .sm.*/, "", name)
      sub(/.* for ./, "", arch)
      sub(/.$/, "", arch)
    }
    /bytes stack frame/ { stack = $1; spilled = $5 + $9 }
    /Used [0-9]+ registers/ {
      if (name ~ /cub::/) next
      for (i = 1; i <= NF; ++i) if ($i == "Used") registers = $(i + 1)
      gsub(/tf_hsm::|gpu::|\(anonymous namespace\)::|void /, "", name)
      sub(/\(.*/, "", name)
      hot = name ~ /Large|Hot|WalkPaths|SmallRows|MergeRows|StepRows|EmitSums/
      most = name ~ /^(BackwardLarge|HotGradients)/ ? 320 : 0
      bad = hot && spilled > most
      printf "| %s | `%s` | %d | %d | %d |%s\n", arch, name, registers,
        stack, spilled, bad ? " SPILLS" : ""
      if (bad) failed = 1
    }
    END { exit failed }' || failed=1
done
exit $failed
