#!/usr/bin/env bash
# What to run first on a GPU, in the order of its worth:
#
#   check     gpu_check, its small cases, each by itself
#   times     gpu_benchmark: forward, gradients, step of six workloads, floors
#   large     gpu_check, its large cases
#   profile   Nsight Compute, a launch of each kernel that should be fast
#   sanitize  compute-sanitizer's memcheck and racecheck on the small cases
#   peers     PyTorch's softmaxes on the same GPU
#
#   benchmarks/gpu/build.sh BIN       # before, where nvcc is
#   benchmarks/gpu/first_half_hour.sh --bin=BIN --out=OUT [--seconds=N] [STEP ...]
#
# Each case is a process of its own with a time limit; a step whose program is
# missing says so. OUT gets results.tsv (step, case, result, seconds), log.txt
# (each line as it comes, after its step and case), gpu.txt and gpu.csv (times),
# profile.txt and peers.json. A case that has passed, by OUT/results.tsv, is not
# run again, so that a run that was cut off goes on. None is started after N
# seconds (1,500 unless given), and none runs on past them. The exit status is 1
# if a case failed or had no time.
#
# --emulated takes programs that Bazel built for the CPU, tiny times and three
# cases: it tries this script without a GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly steps=(check times large profile sanitize peers)
bin='' out='' seconds=1500 emulated=''
wanted=()

die() {
  echo "first_half_hour.sh: $1" >&2
  exit 2
}
for argument in "$@"; do
  case $argument in
    --bin=*) bin=${argument#*=} ;;
    --out=*) out=${argument#*=} ;;
    --seconds=*) seconds=${argument#*=} ;;
    --emulated) emulated=1 ;;
    --help | -h)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      [[ " ${steps[*]} " == *" $argument "* ]] ||
        die "$argument is no step; the steps are ${steps[*]}"
      wanted+=("$argument")
      ;;
  esac
done
[[ -x $bin/gpu_check && -x $bin/gpu_benchmark ]] ||
  die "--bin=$bin must have gpu_check and gpu_benchmark, as build.sh makes them"
[[ -n $out ]] || die '--out=DIR is missing'
[[ $seconds =~ ^[0-9]+$ ]] || die "--seconds=$seconds is no number"
((${#wanted[@]})) || wanted=("${steps[@]}")
mkdir -p "$out" || exit 2
readonly bin=$(cd "$bin" && pwd) out=$(cd "$out" && pwd)
readonly results=$out/results.tsv log=$out/log.txt
touch "$results"

if nvidia-smi -L >>"$log" 2>&1; then
  nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
elif [[ -z $emulated ]]; then
  die 'nvidia-smi finds no GPU; --emulated tries this script without one'
fi

# report STEP CASE RESULT SECONDS
report() {
  printf '%s\t%s\t%s\t%s\n' "$@" >>"$results"
  printf '%5d s  %-9s %-28s %s (%s s)\n' "$SECONDS" "$@"
}

# run STEP CASE LIMIT COMMAND ...: the case, unless it has passed before.
run() {
  local step=$1 case=$2 limit=$3 left=$((seconds - SECONDS)) start=$SECONDS
  shift 3
  grep -qxF -- "$step"$'\t'"$case"$'\t'passed <(cut -f1-3 "$results") && return
  if ((left < 3)); then
    report "$step" "$case" 'no time' 0
    return
  fi
  timeout --kill-after=5 $((limit < left ? limit : left)) "$@" 2>&1 |
    sed --unbuffered "s|^|$step, $case: |" >>"$log"
  local code=${PIPESTATUS[0]} result=passed
  ((code == 0)) || result="failed, exit status $code"
  ((code != 124 && code != 137)) || result='failed, out of time'
  report "$step" "$case" "$result" $((SECONDS - start))
}

# has STEP PROGRAM: whether the machine has it, and a GPU.
has() {
  if [[ -n $emulated ]] && ! nvidia-smi -L >/dev/null 2>&1; then
    report "$1" all 'left out: no GPU' 0
  elif ! command -v "$2" >/dev/null; then
    report "$1" all "left out: no $2" 0
  else
    return 0
  fi
  return 1
}

# check STEP LIMIT SIZE [PREFIX ...]: each small or large case of gpu_check.
check() {
  local step=$1 limit=$2 size=$3 small names name
  shift 3
  small=$("$bin/gpu_check" --list --small)
  if [[ $size == small ]]; then
    mapfile -t names <<<"$small"
  else
    mapfile -t names < <("$bin/gpu_check" --list | grep -vxF -e "$small")
  fi
  [[ -z $emulated ]] || names=("${names[@]::3}")
  for name in "${names[@]}"; do
    run "$step" "$name" "$limit" "$@" "$bin/gpu_check" "--only=$name"
  done
}

# Times of one workload; once it is through, also in gpu.txt and gpu.csv.
benchmark() {
  local lines=$out/$1.part csv=$out/$1.csv.part first=1
  "$bin/gpu_benchmark" "--csv=$csv" "${@:2}" "$1" | tee "$lines"
  local code=${PIPESTATUS[0]}
  if ((code == 0)); then
    [[ ! -s $out/gpu.csv ]] || first=2 # one header is enough
    cat "$lines" >>"$out/gpu.txt"
    tail -n +$first "$csv" >>"$out/gpu.csv"
  fi
  rm -f "$lines" "$csv"
  return "$code"
}

# A profile of the third launch of a kernel; two steps are not counted.
profile() {
  local lines=$out/$1.part code
  ncu --clock-control none --set detailed --kernel-name "regex:^$1" \
    --launch-skip 2 --launch-count 1 \
    "$bin/gpu_benchmark" --runs=1 10m-b40k zipf tf32 step 2>&1 |
    tee "$lines"
  code=${PIPESTATUS[0]}
  ((code != 0)) || ! grep -q 'No kernels were profiled' "$lines" || code=1
  cat "$lines" >>"$out/profile.txt"
  rm -f "$lines"
  return "$code"
}
export -f benchmark profile
export bin out

for step in "${wanted[@]}"; do
  case $step in
    check) check check 120 small ;;
    large)
      has large nvidia-smi || continue
      check large 240 large
      ;;
    times)
      if [[ -n $emulated ]]; then
        run times tiny 60 bash -c 'benchmark tiny --tiny'
      else
        for workload in 10m-b40k 1bw 1m-b400 10m-b400 deep text8; do
          run times $workload 180 bash -c "benchmark $workload"
        done
        for workload in lm-32k lm-128k lm-256k; do
          run times $workload 60 bash -c "benchmark $workload bfloat16"
          run times "$workload, 4 GB of logits" 60 \
            bash -c "benchmark $workload bfloat16 --logits_mb=4096"
        done
      fi
      ;;
    profile)
      has profile ncu || continue
      for kernel in ForwardLarge WalkPaths HotLogits HotRows HotGradients \
        BackwardLarge; do
        run profile $kernel 150 bash -c "profile $kernel"
      done
      ;;
    sanitize)
      has sanitize compute-sanitizer || continue
      for tool in memcheck racecheck; do
        check "$tool" 120 small \
          compute-sanitizer --tool $tool --error-exitcode 9
      done
      ;;
    peers)
      has peers python3 || continue
      ours=()
      [[ ! -s $out/gpu.txt ]] || ours=("--ours=$out/gpu.txt")
      run peers torch 420 python3 benchmarks/gpu/peers.py \
        --workload 1bw 10m-b400 1m-b400 --precision tf32 bfloat16 \
        --seconds=0.5 "${ours[@]}" "--json=$out/peers.json"
      run peers 'torch, flat' 240 python3 benchmarks/gpu/peers.py \
        --workload lm-32k lm-128k lm-256k --precision bfloat16 \
        --implementation full "${ours[@]}" "--json=$out/flat.json"
      ;;
  esac
done

# The last result of each case counts.
awk -F'\t' '{ last[$1 "\t" $2] = $3 }
  END {
    for (key in last) {
      ++count
      if (last[key] == "passed") ++passed
      else print "not passed: " key ": " last[key]
      if (last[key] ~ /^(failed|no time)/) ++failed
    }
    printf "%d of %d cases passed\n", passed, count
    exit failed > 0
  }' "$results"
