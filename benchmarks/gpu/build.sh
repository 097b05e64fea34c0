#!/usr/bin/env bash
# Builds gpu_check and gpu_benchmark, for a GPU that is not here:
#
#   benchmarks/gpu/build.sh DIR [ARCHITECTURE ...]
#
# Needs nvcc; ARCHITECTURE is sm_90 (H100, H200) unless given. The programs need
# nothing where they run but NVIDIA's driver and a glibc as new as here: the CUDA
# runtime and libstdc++ are linked in. `NVCC` names another compiler, `JOBS` how
# many run at once. Takes 2 minutes of one core.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if (($# == 0)); then
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
mkdir -p "$1"
readonly out=$(cd "$1" && pwd) nvcc=${NVCC:-nvcc} jobs=${JOBS:-$(nproc)}
shift
(($#)) || set -- sm_90
command -v "$nvcc" >/dev/null || {
  echo "build.sh: there is no nvcc; NVCC=/path/to/nvcc names one" >&2
  exit 1
}

flags=(-std=c++17 -O3 -I. -x cu -Xcompiler -static-libstdc++,-static-libgcc)
for architecture in "$@"; do
  flags+=(-gencode "arch=compute_${architecture#sm_},code=$architecture")
done

# The sources of both programs, the longest to compile first.
mapfile -t common < <(find cc/cuda -name '*.cu' | sort)
common+=(cc/core/plan/label_plan.cc cc/core/tree/tree_walk.cc)
objects=$out/objects
rm -rf "$objects"
mkdir -p "$objects"
compile() {
  local object=$objects/${1//\//_}.o
  echo "build.sh: $1"
  "$nvcc" "${flags[@]}" -c "$1" -o "$object.new" && mv "$object.new" "$object"
}
names=()
for source in "${common[@]}" cc/cuda/check/gpu_check.cc \
  benchmarks/gpu/main.cc benchmarks/gpu/tree.cc; do
  while (($(jobs -rp | wc -l) >= jobs)); do wait -n; done
  compile "$source" &
  names+=("$objects/${source//\//_}.o")
done
wait
for name in "${names[@]}"; do [[ -f $name ]] || exit 1; done

link() {
  local program=$1
  shift
  "$nvcc" -cudart static -Xcompiler -static-libstdc++,-static-libgcc "$@" \
    -o "$out/$program"
}
link gpu_check "${names[@]::${#common[@]}}" "$objects/cc_cuda_check_gpu_check.cc.o"
link gpu_benchmark "${names[@]::${#common[@]}}" \
  "$objects"/benchmarks_gpu_{main,tree}.cc.o
rm -r "$objects"
ls -l "$out"
