# shellcheck shell=bash disable=SC2154  # $root and others come from ./tessera and its other parts.
# Every test: the release build, and the torch-free core again under sanitizers.

# lap WHAT: notes the seconds since the last lap, for the line at the end.
laps=()
lap_start=0
lap() {
  laps+=("$1 $((SECONDS - lap_start)) s")
  lap_start=$SECONDS
}

# run_ctest PRESET CTEST-FLAGS…
run_ctest() {
  local preset=$1
  shift
  say "running the tests of build/$preset"
  # For a whole program of tests. Those that could wait for ever have a shorter limit of their own.
  local seconds=900
  [[ -z ${TESSERA_SOAK-}${TESSERA_MATRIX-} ]] || seconds=14400
  # Several tests share the cores. Compute threads that spin while they wait for one that is not running make such a test up to 40 times slower.
  OMP_WAIT_POLICY=passive in_group ctest --test-dir "$root/build/$preset" --output-on-failure --timeout "$seconds" -j "$(nproc)" "$@"
  lap "tests of build/$preset"
}

# What the core's other builds make: there each header is compiled by itself, too.
core_targets=(all all_verify_interface_header_sets)

# build_beside PRESET: begins to build the core there, in the background and after everything else: many tests wait more than they
# compute. test_core_in builds what is left, and shows what is wrong.
build_beside() {
  lock_build
  configure "$1" TESSERA_TESTS=ON
  unlock_build
  lock_beside "$1"
  start_group nice -n 19 ninja -C "$root/build/$1" "${core_targets[@]}" >"$root/build/logs/building-$1.log" 2>&1
  unlock_beside
  beside=$group
  trap 'end_group "$beside" || true' EXIT
}

wait_beside() {
  say "waiting for what is being built beside"
  group=$beside
  end_group_with_us
  wait_group || true
  trap - EXIT
}

# The tests of ./tessera itself build while this does, so that it has a lock of its own. The group keeps it.
lock_beside() { lock 7 "$root/build/.lock-$1" "build/$1"; }
unlock_beside() { unlock 7; }

# test_core_in PRESET CTEST-FLAGS…: the core's tests in another build, sanitized or by another compiler.
test_core_in() {
  local preset=$1
  shift
  lock_build
  lock_beside "$preset"
  configure "$preset" TESSERA_TESTS=ON
  compile "$preset" "${core_targets[@]}"
  unlock_beside
  unlock_build
  lap "building build/$preset"
  run_ctest "$preset" "$@"
}

# The tests with ranks, sanitized. LibTorch itself is not: what it leaks and races over is none of our business.
test_ranks_in() {
  local preset=$1
  shift
  lock_build
  configure "$preset" TESSERA_TESTS=ON "Torch_DIR=$(cached release Torch_DIR)"
  compile "$preset" all all_verify_interface_header_sets
  unlock_build
  lap "building build/$preset"
  ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=ignore_noninstrumented_modules=1 run_ctest "$preset" -L ranks "$@"
}

fuzz() {
  lock_build
  configure fuzz TESSERA_TESTS=ON
  compile fuzz fuzz_all
  unlock_build
  "$root/tests/fuzz/soak" "$root/build/fuzz/fuzz"
}

# Every layout of tests/e2e/parity_layouts beside one process and PyTorch.
run_matrix() {
  local table=$root/build/release/parity.md
  build_everything tools
  rm -f "$table"
  TESSERA_MATRIX=1 run_ctest release --no-tests=error -R '^e2e\.parity$'
  [[ -e $table ]] || die "no layout was compared, since transformers could not be installed; ctest says why"
  cat "$table"
}

run_tests() {
  local flag soak='' flags=()
  for flag in "$@"; do
    if [[ $flag == --matrix ]]; then
      (($# == 1)) || misused "test --matrix takes no other flag, but got '$*'"
      run_matrix
      return
    fi
    if [[ $flag == --soak ]]; then soak=1; else flags+=("$flag"); fi
  done
  # How many random inputs each property is tried on; a failure prints what repeats it.
  export RC_PARAMS=${RC_PARAMS:-max_success=$((soak ? 20000 : 200))}
  [[ -z $soak ]] || export TESSERA_SOAK=1  # Tests with rounds of their own run more of them.
  # A run of nothing fails, unless the caller's own flags chose the tests.
  ((${#flags[@]})) || flags=(--no-tests=error)
  lap_start=$SECONDS
  build_everything tools
  lap "building build/release"
  build_beside asan
  run_ctest release "${flags[@]}"
  wait_beside
  test_core_in asan "${flags[@]}"
  if [[ -n $soak ]]; then
    need soak
    build_benchmarks
    TESSERA_SHM=0 run_ctest release -L ranks "${flags[@]}"  # Over Gloo, what went through shared memory before.
    test_core_in tsan "${flags[@]}"
    test_ranks_in asan-torch "${flags[@]}"
    test_ranks_in tsan-torch "${flags[@]}"
    CXX='' test_core_in clang "${flags[@]}"
    CXX='' fuzz
    lap fuzzing
  fi
  say "all tests passed$(printf '; %s' "${laps[@]}")"
}
