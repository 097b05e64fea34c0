#!/usr/bin/env bash
# Packs TensorFlow, tf_hsm and the tests of its ops for a machine with a GPU,
# NVIDIA's driver, a Python and no network:
#
#   tests/gpu/pack.sh OUT [--python=3.12] [--piece_mb=60] [--gpu=90] [--full]
#
# Writes OUT/piece.000, ... and OUT/unpack.sh, which checks and installs them.
# Needs a network, and the wheel, with GPU kernels, of `bazel build //:wheel`.
#
# TensorFlow sees no GPU unless it can open seven CUDA libraries. This packs six
# as empty files, because few of our ops and of TensorFlow's call them: matrix
# products (cuBLAS), convolutions (cuDNN), FFTs and sparse products fail. --full
# packs the true ones. --gpu=90 leaves out TensorFlow's machine code for other
# GPUs than sm_90, its headers and symbols: 270 MB instead of 620.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}
out='' python=3.12 piece_mb=60 gpu='' full=''
for argument in "$@"; do
  case $argument in
    --python=*) python=${argument#*=} ;;
    --piece_mb=*) piece_mb=${argument#*=} ;;
    --gpu=*) gpu=${argument#*=} ;;
    --full) full=1 ;;
    -*) usage ;;
    *) out=$argument ;;
  esac
done
[[ -n $out ]] || usage

shopt -s nullglob
own=(bazel-bin/tf_hsm-*.whl)
((${#own[@]} == 1)) || {
  echo 'pack.sh: first run  TF_HSM_CUDA=1 ./configure.sh && bazel build --config=all_gpus //:wheel' >&2
  exit 1
}
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -rf "$out/packed" "$out"/piece.*
mkdir -p "$out/packed/wheels" "$out/packed/stubs"

# pip takes the markers of packages from the Python that runs it.
readonly tensorflow=$(sed -n 's/^tensorflow==/&/p' requirements.txt)
platforms=()
for tag in 2_31 2_28 2_27 2_17 2014 2_12 2010 1; do
  [[ $tag == 20* || $tag == 1 ]] || tag=_$tag
  platforms+=(--platform "manylinux${tag}_x86_64")
done
packages=("$tensorflow" nvidia-cuda-runtime-cu12 pytest)
[[ -z $full ]] || packages[0]="tensorflow[and-cuda]${tensorflow#tensorflow}"
printf '%s\n' "${packages[@]}" tf_hsm >"$out/packed/requirements.txt"
.venv/bin/python -m pip download --quiet --dest "$out/packed/wheels" \
  --only-binary=:all: --implementation cp --python-version "$python" \
  --abi "cp${python/./}" --abi abi3 --abi none "${platforms[@]}" \
  "${packages[@]}"
cp "${own[0]}" "$out/packed/wheels/"

if [[ -n $gpu ]]; then
  .venv/bin/python tests/gpu/slim_wheel.py \
    "$(ls "$out"/packed/wheels/tensorflow-*.whl)" "$gpu"
fi

if [[ -z $full ]]; then
  for library in cublas.so.12 cublasLt.so.12 cudnn.so.9 cufft.so.11 \
    cusolver.so.11 cusparse.so.12; do
    echo 'int tf_hsm_stub;' | gcc -shared -fPIC -x c \
      "-Wl,-soname,lib$library" -o "$out/packed/stubs/lib$library" -
  done
fi
cp -r tests pyproject.toml "$out/packed/"

cat >"$out/packed/env.sh" <<'EOF'
# source DIR/env.sh
_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
_nvidia=$("$_dir/venv/bin/python" -c 'import nvidia; print(*nvidia.__path__)')
export LD_LIBRARY_PATH=$_dir/stubs:$(echo "$_nvidia"/*/lib | tr ' ' :):${LD_LIBRARY_PATH-}
# Where TensorFlow has no machine code for the GPU, the driver compiles it, once
# if it fits its cache.
export CUDA_CACHE_MAXSIZE=4294967295
export PATH=$_dir/venv/bin:$PATH
cd "$_dir"
EOF
tar -C "$out/packed" -cf - . | xz --threads=0 -4 |
  split --bytes="${piece_mb}M" --numeric-suffixes --suffix-length=3 - "$out/piece."
(cd "$out" && sha256sum piece.* >sums)

cat >"$out/unpack.sh" <<'EOF'
#!/usr/bin/env bash
# unpack.sh DIR [PYTHON]: installs the pieces beside this file into DIR.
set -euo pipefail
mkdir -p "${1:?the folder to install into}"
readonly dir=$(cd "$1" && pwd) python=${2:-python3}
cd "$(dirname "${BASH_SOURCE[0]}")"
sha256sum --quiet --check sums
cat piece.* | "$python" -c 'import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.stdin.buffer), sys.stdout.buffer)' |
  tar -C "$dir" -xf -
"$python" -m venv --without-pip "$dir/venv"
"$python" -m pip --python "$dir/venv/bin/python" install --quiet --no-index \
  --no-compile --find-links="$dir/wheels" --requirement "$dir/requirements.txt"
echo "source $dir/env.sh && python -m pytest -rs tests/gpu/gpu_test.py"
EOF
chmod +x "$out/unpack.sh"
du -ch "$out"/piece.* | tail -n 1
