# shellcheck shell=bash disable=SC2154  # $root and others come from ./tessera and its other parts.
# Configures and builds; nothing is printed where nothing is to do.

# cached PRESET VARIABLE: its value in that build, empty where there is none.
cached() {
  sed -n "s/^$2:[A-Z]*=//p" "$root/build/$1/CMakeCache.txt" 2>/dev/null || true
}

# configure PRESET VARIABLE=VALUE…: only where a value is not yet so.
configure() {
  local preset=$1 setting settings=() changed=
  shift
  [[ -e $root/build/$preset/build.ninja ]] || changed=1
  for setting in "$@" ${TESSERA_DEPS:+TESSERA_DEPS="$TESSERA_DEPS"}; do
    settings+=("-D$setting")
    [[ $(cached "$preset" "${setting%%=*}") == "${setting#*=}" ]] || changed=1
  done
  [[ -n $changed ]] || return 0
  quietly "configuring build/$preset" cmake -S "$root" --preset "$preset" "${settings[@]}"
}

# compile PRESET TARGET…
compile() {
  local folder=$root/build/$1
  shift
  [[ $(ninja -C "$folder" -n "$@") != *'no work to do'* ]] || return 0
  say "building ${*} in ${folder#"$root"/}"
  ninja -C "$folder" "$@" >&2 || die "the build failed"
}

build_core() {
  lock
  need core
  [[ -n $(cached release TESSERA_TORCH) ]] || configure release TESSERA_TORCH=OFF TESSERA_TESTS=OFF
  configure release
  compile release tessera
  unlock
}

# Once torch is part of the build it stays; a torch that has gone is looked for again.
configure_torch() {
  torch_dir=$(cached release Torch_DIR)
  [[ -e $torch_dir/TorchConfig.cmake ]] || find_torch
  configure release TESSERA_TORCH=ON "Torch_DIR=$torch_dir" "$@"
}

build_torch() {
  lock
  need core
  configure_torch
  compile release tessera tessera-torch
  unlock
}

build_everything() {
  lock
  need core
  need tests
  need_tools
  configure_torch TESSERA_TESTS=ON "TESSERA_TOOLS=$tools"
  compile release all all_verify_interface_header_sets
  unlock
}

run_benchmarks() {
  lock
  need core
  need bench
  [[ -n $(cached release TESSERA_TORCH) ]] || configure release TESSERA_TORCH=OFF TESSERA_TESTS=OFF
  configure release TESSERA_BENCH=ON
  compile release bench/all tessera
  [[ ${1-} != --peer ]] || need_peer
  unlock
  "$root/bench/run" "$@"
}

# Megatron-Core, for side-by-side runs; its other dependencies are not needed for its groups.
need_peer() {
  local peer=$cache/peer-megatron
  [[ -e $peer/.complete ]] && return
  install_torch "$peer"
  quietly "installing Megatron-Core" "$peer/bin/pip" install --disable-pip-version-check numpy packaging
  quietly "installing Megatron-Core itself" "$peer/bin/pip" install --disable-pip-version-check \
    --no-deps megatron-core==0.16.1
}
