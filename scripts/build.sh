# shellcheck shell=bash disable=SC2154  # $root and others come from ./tessera and its other parts.
# Configures and builds; nothing is printed where nothing is to do.

# cached PRESET VARIABLE: its value in that build, empty where there is none.
cached() {
  sed -n "s/^$2:[A-Z]*=//p" "$root/build/$1/CMakeCache.txt" 2>/dev/null || true
}

# configure PRESET VARIABLE=VALUE…: only where a value is not yet so.
configure() {
  local preset=$1 setting settings=() changed=''
  shift
  # CMake keeps the compiler of the first time; another one needs a new start.
  if [[ -n ${CXX-} && -e $root/build/$preset/.cxx && $(<"$root/build/$preset/.cxx") != "$CXX" ]]; then
    rm -f "$root/build/$preset/CMakeCache.txt"
  fi
  [[ -e $root/build/$preset/build.ninja && -e $root/build/$preset/CMakeCache.txt ]] || changed=1
  # A compiler launcher that comes after the first configuration would compile everything anew.
  [[ -e $root/build/$preset/CMakeCache.txt ]] || wish_for_ccache
  for setting in "$@" "TESSERA_DEPS=${TESSERA_DEPS-}"; do
    settings+=("-D$setting")
    [[ $(cached "$preset" "${setting%%=*}") == "${setting#*=}" ]] || changed=1
  done
  [[ -n $changed ]] || return 0
  quietly "configuring build/$preset" cmake -S "$root" --preset "$preset" "${settings[@]}" || return 1
  echo "${CXX-}" >"$root/build/$preset/.cxx"
}

# compile PRESET TARGET…
compile() {
  local folder=$root/build/$1
  shift
  [[ $(ninja -C "$folder" -n "$@") != *'no work to do'* ]] || return 0
  say "building $* in ${folder#"$root"/}"
  in_group ninja -C "$folder" "$@" >&2 || die "the build failed"
}

# What has been part of the build stays so; at first that is neither torch nor tests.
configure_core() {
  local torch tests
  torch=$(cached release TESSERA_TORCH)
  tests=$(cached release TESSERA_TESTS)
  configure release "TESSERA_TORCH=${torch:-OFF}" "TESSERA_TESTS=${tests:-OFF}" "$@"
}

# Without a GPU the CUDA part of a torch is dead weight: seconds at every start.
cuda_setting() {
  [[ -z ${TESSERA_CUDA-} ]] || { echo "$TESSERA_CUDA" && return; }
  if [[ -e /dev/nvidiactl ]]; then echo AUTO; else echo OFF; fi
}

# The torch of this build is used again, unless the caller names another.
choose_torch() {
  torch_dir=$(torch_of_environment) || exit 1
  [[ -n $torch_dir ]] || torch_dir=$(cached release Torch_DIR)
  [[ -e $torch_dir/TorchConfig.cmake ]] || find_torch
}

# A torch that does not work must not keep the torch-free verbs from being built.
configure_torch() {
  choose_torch
  configure_core
  configure release TESSERA_TORCH=ON "Torch_DIR=$torch_dir" "TESSERA_CUDA=$(cuda_setting)" "$@" && return
  cmake -S "$root" --preset release -DTESSERA_TORCH=OFF -DTESSERA_TESTS=OFF -UTorch_DIR >/dev/null 2>&1
  die "LibTorch in $torch_dir cannot be used; name another one by Torch_DIR"
}

build_core() {
  # What somebody else has built can be used as it is.
  [[ ! -x $bin/tessera || -w $root/build ]] || return 0
  lock_build
  [[ -x $bin/tessera ]] || say "the first start installs what is missing and builds the program: about two minutes on two cores"
  need core
  configure_core
  compile release tessera
  unlock_build
}

build_torch() {
  lock_build
  [[ -x $bin/tessera-torch ]] || say "the first verb with LibTorch installs it and builds what needs it: about three minutes more"
  need core
  configure_torch
  compile release tessera tessera-torch
  unlock_build
}

# All that is installed.
build_library() {
  lock_build
  need core
  configure_torch
  compile release library
  unlock_build
}

build_examples() {
  lock_build
  need core
  configure_torch TESSERA_EXAMPLES=ON
  compile release tessera tessera-torch examples
  unlock_build
  say "the programs are in build/release/bin/examples"
}

# build_everything [tools]: with what the tests of the code's form run.
build_everything() {
  local settings=(TESSERA_TESTS=ON)
  lock_build
  need core tests
  choose_torch
  if [[ ${1-} == tools ]]; then
    need_tools
    settings+=("TESSERA_TOOLS=$tools")
  fi
  configure_torch "${settings[@]}"
  compile release all
  unlock_build
}

# --peer compares the communication as well, and that needs torch.
# All of them, without running any.
build_benchmarks() {
  lock_build
  need core bench
  configure_torch TESSERA_BENCH=ON
  compile release bench/all
  unlock_build
}

run_benchmarks() {
  local programs=(tessera)
  lock_build
  need core bench
  if [[ ${1-} == --peer ]]; then
    programs+=(tessera-torch)
    need_peer
    need_olmo_peer
    need_nemo_peer
    need_transformers_peer
    configure_torch TESSERA_BENCH=ON
  else
    configure_core TESSERA_BENCH=ON
  fi
  compile release bench/all "${programs[@]}"
  unlock_build
  "$root/bench/run" "$@"
}
