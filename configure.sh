#!/usr/bin/env bash
# Prepares a Debian or Ubuntu machine to build, test and train: installs what is
# missing (as root or with sudo), makes .venv, and writes .bazelrc.configured.
# Asks nothing; when all is there it takes a second.
#
#   PYTHON=/path/to/python3 ./configure.sh    chooses the Python of .venv
#   CC=gcc-13 CXX=g++-13 ./configure.sh       chooses the compiler
#   TF_HSM_CUDA=0 ./configure.sh              leaves the GPU kernels out
#   TF_HSM_CUDA=1 ./configure.sh              builds them without a GPU too, and
#                                             fails if no nvcc works
#   TF_HSM_GPUS=80,90 ./configure.sh          chooses the architectures of GPUs
#
# Unless TF_HSM_CUDA is set, GPU kernels are built if the machine has a GPU and an
# nvcc. They are for the architecture of its GPU, unless TF_HSM_GPUS is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

readonly venv="$PWD/.venv"
readonly stamp_file="$venv/tf_hsm_requirements"
readonly rc_file=.bazelrc.configured
readonly debian_rules=/usr/share/bazel/rules
readonly cxx=${CXX:-g++}

say() { printf 'configure: %s\n' "$*"; }

die() {
  printf 'configure: error: %s\n' "$*" >&2
  exit 1
}

# Runs a command whose output matters only if it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" </dev/null >"$log" 2>&1 || status=$?
  if ((status)); then tail -n 30 "$log" >&2; fi
  rm -f "$log"
  return "$status"
}

# --- What is on this machine -------------------------------------------------

# TensorFlow 2.21 has wheels for Python 3.10 to 3.13; venv needs ensurepip.
is_supported_python() {
  "$1" -c 'import ensurepip, sys, venv
sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

find_python() {
  local candidate candidates=("$venv/bin/python" python3
    python3.{13,12,11,10} /usr/bin/python3)
  if [[ -n ${PYTHON:-} ]]; then candidates=("$PYTHON"); fi
  for candidate in "${candidates[@]}"; do
    if is_supported_python "$candidate"; then
      command -v "$candidate"
      return
    fi
  done
}

find_bazel() { command -v bazel || command -v bazelisk || true; }

# Debian's build does not know its version; the package does.
is_debian_bazel() { [[ $("$1" --version 2>/dev/null) == *no_version* ]]; }

bazel_version() {
  if is_debian_bazel "$1"; then
    dpkg-query --show --showformat '${Version}' bazel-bootstrap
  else
    "$1" --version 2>/dev/null | awk '/^bazel [0-9]/ { print $2 }'
  fi
}

# Prints the version of CUDA; nothing if that is no nvcc.
cuda_release() {
  { "$1" --version 2>/dev/null || true; } |
    sed -nE 's/.*release ([0-9]+\.[0-9]+),.*/\1/p'
}

# Whether there is a device of NVIDIA's, or a driver that lists one (WSL).
has_gpu() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null ||
    { nvidia-smi -L 2>/dev/null || true; } | grep -q '^GPU '
}

# Prints the architectures of the GPUs, as 90 or 80,90; nothing if the driver
# does not list them, if nvcc does not know one, or if one is older than sm_75,
# which the kernels need.
own_gpus() {
  local nvcc=$1 caps cap
  caps=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
    tr -d '. ' | sort -nu) || return 0
  for cap in $caps; do
    ((cap >= 75)) && "$nvcc" --list-gpu-code | grep -x "sm_$cap" >/dev/null ||
      return 0
  done
  # shellcheck disable=SC2086  # one word per architecture
  printf '%s\n' $caps | paste -sd,
}

# Ends with a sentence unless TF_HSM_GPUS names architectures of this nvcc.
check_gpus() {
  local nvcc=$1 known cap
  known=" $("$nvcc" --list-gpu-code | sed -n 's/^sm_//p' | sort -n | paste -sd' ') "
  for cap in ${TF_HSM_GPUS//,/ }; do
    [[ $known == *" $cap "* ]] && ((cap >= 75)) ||
      die "TF_HSM_GPUS is '$TF_HSM_GPUS', but '$cap' is no architecture from 75" \
        "on that $nvcc knows:$known"
  done
}

# Sets `nvcc` to the first nvcc that works, or to nothing if no GPU kernels are to
# be built. Sets `gpus` to the architectures of this machine's GPUs, or to nothing
# for the architectures of a release. Sets `gpu` to a sentence on what is built,
# and why.
choose_nvcc() {
  local candidate why reason
  nvcc='' gpus=''
  case ${TF_HSM_CUDA:-} in
  0)
    gpu='no GPU kernels, because TF_HSM_CUDA is 0'
    return
    ;;
  1) reason='because TF_HSM_CUDA is 1' ;;
  '')
    if ! has_gpu; then
      gpu='no GPU kernels, because there is no GPU (TF_HSM_CUDA=1 builds them)'
      return
    fi
    reason='because there is a GPU (TF_HSM_CUDA=0 leaves them out)'
    ;;
  *) die "TF_HSM_CUDA is '$TF_HSM_CUDA', but must be 0, 1 or unset" ;;
  esac
  for candidate in nvcc /usr/local/cuda/bin/nvcc /usr/local/cuda-*/bin/nvcc; do
    candidate=$(command -v "$candidate") || continue
    why=$(why_not_nvcc "$candidate")
    if [[ -z $why ]]; then
      nvcc=$candidate
      if [[ -n ${TF_HSM_GPUS:-} ]]; then
        check_gpus "$nvcc"
        gpus=$TF_HSM_GPUS
      elif has_gpu; then
        gpus=$(own_gpus "$nvcc")
      fi
      gpu="GPU kernels for ${gpus:+sm_${gpus//,/, sm_}}"
      if [[ -z $gpus ]]; then gpu+='sm_75, sm_80, sm_90 and PTX'; fi
      gpu+=", $reason; CUDA $(cuda_release "$nvcc"), $nvcc"
      return
    fi
    : "${gpu:=$candidate $why}"
  done
  : "${gpu:=no nvcc (CUDA 12 or newer) was found}"
  if [[ ${TF_HSM_CUDA:-} == 1 ]]; then
    die "TF_HSM_CUDA is 1, but no nvcc works: $gpu"
  fi
  gpu="no GPU kernels, because $gpu"
}

# Warns where the GPU kernels need a newer driver than TensorFlow: it sees the
# GPU then, and every op of ours fails there.
warn_of_driver() {
  local release=$1 tensorflow driver
  tensorflow=$(sed -nE "s/.*'cuda_version', '([0-9]+\.[0-9]+).*/\1/p" \
    "$venv"/lib/python3*/site-packages/tensorflow/python/platform/build_info.py \
    2>/dev/null) || return 0
  if [[ -z $tensorflow ]] || ((${release%%.*} <= ${tensorflow%%.*})); then
    return
  fi
  driver='a driver as new as that'
  if ((${release%%.*} == 13)); then driver="NVIDIA's driver 580 or newer"; fi
  say "warning: CUDA $release is newer than TensorFlow's $tensorflow: the GPU" \
    "kernels need $driver, where TensorFlow itself runs from 525 on. CUDA 12's" \
    "nvcc, first in PATH, makes kernels that run there too."
}

# Prints what is wrong with an nvcc; nothing if it makes a program for the GPUs
# of bazel/op.bzl with this compiler. Not tried again if the rc file names it.
why_not_nvcc() {
  local release folder flags
  release=$(cuda_release "$1")
  if [[ -z $release ]]; then
    echo 'does not tell its version'
    return
  fi
  if ((${release%%.*} < 12)); then
    echo "is CUDA $release, but 12 or newer is needed"
    return
  fi
  if [[ -z ${CC:-} ]] && ! grep -q 'repo_env=CC=' "$rc_file" 2>/dev/null &&
    grep -qF "TF_HSM_NVCC=$1\"" "$rc_file" 2>/dev/null &&
    grep -q "TF_HSM_CUDA_RELEASE=$release\$" "$rc_file"; then
    return
  fi
  mapfile -t flags < <(grep -o -- '-gencode=[^"]*' bazel/op.bzl)
  folder=$(mktemp -d)
  cat >"$folder/try.cu" <<'END'
#include <cub/version.cuh>
#include <cuda_fp16.h>
__global__ void Nothing() {}
int main() { Nothing<<<1, 1>>>(); }
END
  "$1" ${CC:+"-ccbin=$CC"} -std=c++17 -Wno-deprecated-gpu-targets "${flags[@]}" \
    "$folder/try.cu" -o "$folder/try" >"$folder/log" 2>&1 ||
    echo "(CUDA $release) fails with $(grep -im 1 error "$folder/log" ||
      head -n 1 "$folder/log")"
  rm -rf "$folder"
}

# The vector code needs GCC 12; Bazel takes the compiler from CC.
check_compiler() {
  local version
  version=$("$cxx" -dumpversion) || die "$cxx does not run"
  if ((${version%%.*} < 12)); then
    die "$cxx is version $version, but 12 or newer is needed: install g++-12" \
      "and run CC=gcc-12 CXX=g++-12 ./configure.sh"
  fi
}

# Sets `clang` to one that has libFuzzer, or to nothing, and `fuzz` to what
# follows for the fuzz targets.
choose_clang() {
  local candidate folder
  for candidate in clang clang-{20,19,18,17,16,15,14}; do
    clang=$(command -v "$candidate") || continue
    folder=$("$clang" -print-runtime-dir 2>/dev/null) || continue
    if compgen -G "$folder/libclang_rt.fuzzer*.a" >/dev/null; then
      fuzz="$clang; bazel run --config=fuzz //cc/fuzz:loss"
      return
    fi
  done
  clang=
  fuzz='no clang 14 or newer with libFuzzer found; only fuzzing needs it'
}

# --- What is missing ---------------------------------------------------------

install_packages() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y)
  local by_hand="as root, run: apt-get install $*"
  command -v apt-get >/dev/null ||
    die "there is no apt-get here; install the equivalent of: $*"
  if ((EUID != 0)); then
    sudo -n true 2>/dev/null || die "sudo asks for a password; $by_hand"
    apt=(sudo -n "${apt[@]}")
  fi
  say "installing $*"
  quietly "${apt[@]}" update || say 'apt-get update failed; trying without'
  quietly "${apt[@]}" install --no-install-recommends "$@" ||
    die "apt-get failed; $by_hand"
  hash -r
}

install_missing_packages() {
  local missing=() bazel rules
  command -v "$cxx" >/dev/null || missing+=(g++)
  if [[ -z $(find_python) && -z ${PYTHON:-} ]]; then
    missing+=(python3 python3-venv)
  fi
  bazel=$(find_bazel)
  if [[ -z $bazel ]]; then missing+=(bazel-bootstrap); fi
  if [[ -z $bazel ]] || is_debian_bazel "$bazel"; then
    for rules in java proto; do
      [[ -d $debian_rules/$rules ]] || missing+=("bazel-rules-$rules")
    done
  fi
  if ((${#missing[@]})); then install_packages "${missing[@]}"; fi
}

# An environment of the same Python is kept: pip then fetches only what changed.
make_venv() {
  local python=$1 base stamp
  base=$("$python" -c 'import platform, sys
print(sys.base_prefix, platform.python_version())')
  stamp=$(printf '%s\n' "$base" | cat - requirements.txt)
  if [[ $(cat "$stamp_file" 2>/dev/null) == "$stamp" ]]; then return; fi
  say 'installing requirements.txt into .venv (the first time, some minutes)'
  if [[ $(head -n 1 "$stamp_file" 2>/dev/null) != "$base" ]]; then
    quietly "$python" -m venv --clear "$venv" ||
      die "$python could not make $venv"
  fi
  quietly "$venv/bin/python" -m pip install --disable-pip-version-check \
    --requirement requirements.txt ||
    die 'pip failed; run ./configure.sh again when the package index answers'
  printf '%s\n' "$stamp" >"$stamp_file"
}

# Prints the flags that this version of Bazel needs.
bazel_flags() {
  local bazel=$1 major=$2 name
  if is_debian_bazel "$bazel"; then
    # bazel/compat/README.md says why.
    for name in rules_cc remote_coverage_tools; do
      echo "common \"--override_repository=$name=$PWD/bazel/compat/$name\""
    done
    for name in java proto; do
      echo "common --override_repository=rules_$name=$debian_rules/$name"
    done
  fi
  if ((major >= 6)); then echo 'common --noenable_bzlmod'; fi
  if ((major >= 8)); then echo 'common --enable_workspace'; fi
}

write_rc_file() {
  local bazel=$1 major=$2 nvcc=$3 gpus=$4 clang=$5 content checksum
  checksum=$(cksum <"$stamp_file")
  content=$(
    echo '# Written by configure.sh; changes here are lost.'
    echo "common \"--repo_env=TF_HSM_PYTHON=$venv/bin/python\""
    echo "common --repo_env=TF_HSM_ENVIRONMENT=${checksum%% *}"
    if [[ -n ${CC:-} ]]; then echo "common \"--repo_env=CC=$CC\""; fi
    if [[ -n $nvcc ]]; then
      echo "common \"--repo_env=TF_HSM_NVCC=$nvcc\""
      echo "common --repo_env=TF_HSM_CUDA_RELEASE=$(cuda_release "$nvcc")"
      echo "common --repo_env=TF_HSM_GPUS=$gpus"
    fi
    if [[ -n $clang ]]; then
      echo "build:fuzz \"--repo_env=CC=$clang\""
    fi
    bazel_flags "$bazel" "$major"
  )
  if [[ $(cat "$rc_file" 2>/dev/null) != "$content" ]]; then
    printf '%s\n' "$content" >"$rc_file"
  fi
}

main() {
  local python bazel version major nvcc gpus gpu clang fuzz name
  install_missing_packages
  check_compiler

  python=$(find_python)
  [[ -n $python ]] || die "TensorFlow 2.21 needs Python 3.10 to 3.13 with" \
    "venv; ${PYTHON:-$(python3 --version 2>&1)} is not. Install one and run:" \
    "PYTHON=/path/to/it ./configure.sh"
  make_venv "$python"

  bazel=$(find_bazel)
  version=$(bazel_version "$bazel") || version=
  major=${version%%.*}
  [[ -n $version ]] || die "'$bazel --version' fails. If it is bazelisk," \
    "it could not download the Bazel that .bazeliskrc names."
  ((major >= 4 && major <= 8)) || die "$bazel is version $version;" \
    "4 to 8 work. Install bazelisk, which fetches the one that .bazeliskrc names."
  choose_nvcc
  choose_clang
  write_rc_file "$bazel" "$major" "$nvcc" "$gpus" "$clang"

  name=${bazel##*/}
  say "bazel       $version, $bazel"
  say "compiler    $("$cxx" --version | head -n 1), $(command -v "$cxx")"
  say "python      $("$venv/bin/python" --version), $venv"
  say "tensorflow  $(sed -n 's/^tensorflow==//p' requirements.txt)"
  say "gpu         $gpu"
  if [[ -n $nvcc ]]; then warn_of_driver "$(cuda_release "$nvcc")"; fi
  say "clang       $fuzz"
  say "ready       $name run //:train   $name test //..." \
    "  $name build //:wheel"
}

main
