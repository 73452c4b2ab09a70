# shellcheck shell=bash disable=SC2154  # $root and others come from ./tessera and its other parts.
# Every test: the release build, then the torch-free core again under sanitizers.

# run_ctest PRESET CTEST-FLAGS…
run_ctest() {
  local preset=$1
  shift
  say "running the tests of build/$preset"
  ctest --test-dir "$root/build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" "$@"
}

# The core's tests in another build: sanitized, or by another compiler.
test_core_in() { # PRESET CMAKE-SETTINGS… -- CTEST-FLAGS…
  local preset=$1 settings=()
  shift
  while [[ $1 != -- ]]; do
    settings+=("$1")
    shift
  done
  shift
  lock
  configure "$preset" TESSERA_TESTS=ON "${settings[@]}"
  compile "$preset" all
  unlock
  run_ctest "$preset" -L 'unit|golden|fuzz' "$@"
}

run_tests() {
  local flag soak='' flags=()
  for flag in "$@"; do
    if [[ $flag == --soak ]]; then soak=1; else flags+=("$flag"); fi
  done
  # How many random inputs each property is tried on; a failure prints what repeats it.
  export RC_PARAMS=${RC_PARAMS:-max_success=$((soak ? 20000 : 200))}
  build_everything
  run_ctest release "${flags[@]}"
  test_core_in asan -- "${flags[@]}"
  if [[ -n $soak ]]; then
    need soak
    test_core_in tsan -- "${flags[@]}"
    test_core_in clang -- "${flags[@]}"
    lock
    configure fuzz TESSERA_TESTS=ON
    compile fuzz fuzz_all
    unlock
    "$root/tests/fuzz/soak" "$root/build/fuzz/fuzz"
  fi
  say "all tests passed"
}
