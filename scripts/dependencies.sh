# shellcheck shell=bash disable=SC2154  # $root and $cache come from ./tessera and common.sh.
# What the build needs besides torch: looked for first, installed by apt where something is missing.

# For whom | how it is found | Debian's package | its name for people
dependencies='
core   | command c++                  | g++                | a C++20 compiler (g++ 12 or clang 15, or newer)
core   | command cmake                | cmake              | CMake 3.25 or newer
core   | command ninja                | ninja-build        | Ninja
core   | header nlohmann/json.hpp     | nlohmann-json3-dev | nlohmann-json
core   | header CLI/CLI.hpp           | libcli11-dev       | CLI11
tests  | header gtest/gtest.h         | libgtest-dev       | GoogleTest
tests  | header rapidcheck.h          | librapidcheck-dev  | RapidCheck
bench  | header benchmark/benchmark.h | libbenchmark-dev   | google-benchmark
python | python ensurepip             | python3-venv       | Python 3 with venv
soak   | command clang++-19           | clang-19           | clang 19
soak   | file libclang_rt.fuzzer-*.a  | libclang-rt-19-dev | libFuzzer
'

# For people who check the code's form; the same version everywhere, so that all see the same result.
tools_version=18.1.8

is_there() { # KIND NAME
  case $1 in
    command) have "$2" ;;
    header) echo "#include <$2>" | "${CXX:-c++}" ${TESSERA_DEPS:+-isystem "$TESSERA_DEPS/usr/include"} -E -x c++ - ;;
    python) python3 -c "import $2" ;;
    file) [[ -n $(find /usr/lib/llvm-19 -name "$2" -print -quit) ]] ;;
  esac >/dev/null 2>&1
}

# need SET: everything of that set is there afterwards. A stamp makes the next start quick.
need() {
  local stamp=$root/build/.have-$1 group probe package name packages=() names=()
  [[ $stamp -nt $root/scripts/dependencies.sh ]] && return
  while IFS='|' read -r group probe package name; do
    read -r group <<<"$group"
    [[ $group == "$1" ]] || continue
    # shellcheck disable=SC2086  # Two words.
    is_there $probe && continue
    read -r package <<<"$package"
    packages+=("$package")
    names+=("${name# }")
  done <<<"$dependencies"
  ((${#packages[@]} == 0)) || install_packages "${packages[*]}" "$(printf '\n  %s' "${names[@]}")"
  mkdir -p "$root/build" && touch "$stamp"
}

install_packages() { # PACKAGES NAMES
  local as_root=()
  ((EUID == 0)) || as_root=(sudo)
  have apt-get || die "these are missing:$2
Install them with your system's packages. Where nothing can be installed: run
\`./tessera deps --bundle DIR\` on a Debian machine, copy DIR here, and set TESSERA_DEPS=DIR."
  ((EUID == 0)) || have sudo || die "these are missing:$2
Install them as root: apt-get install $1"
  quietly "reading the package lists" "${as_root[@]}" apt-get update
  # shellcheck disable=SC2086  # Several packages.
  quietly "installing $1" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends $1
}

# A virtual environment in the cache, complete or not there at all.
virtual_environment() { # FOLDER
  need python
  rm -rf "$1" && mkdir -p "$(dirname "$1")"
  python3 -m venv "$1"
}

need_tools() {
  tools=$cache/tools-$tools_version
  [[ -e $tools/.complete ]] && return
  virtual_environment "$tools"
  quietly "installing clang-format and clang-tidy $tools_version" "$tools/bin/pip" install \
    --disable-pip-version-check "clang-format==$tools_version" "clang-tidy==$tools_version"
  touch "$tools/.complete"
}

# Headers, libraries and CMake files of our libraries, as a prefix that CMake takes from TESSERA_DEPS.
bundle() { # FOLDER
  local set package file
  have dpkg-query || die "a bundle is made of Debian's packages; run this on Debian or Ubuntu"
  for set in core tests bench; do need "$set"; done
  mkdir -p "$1"
  for package in nlohmann-json3-dev libcli11-dev libgtest-dev librapidcheck-dev libbenchmark-dev; do
    while read -r file; do
      [[ -f $file && $file != /usr/share/doc/* ]] || continue
      cp --no-dereference --parents "$file" "$1"
      while [[ -L $file ]]; do # A library's link to its versions: they come along.
        file=$(dirname "$file")/$(readlink "$file")
        cp --no-dereference --parents "$file" "$1"
      done
    done < <(dpkg-query --listfiles "$package")
  done
  say "$1 holds the libraries; build elsewhere with TESSERA_DEPS=$1"
}

run_deps() {
  if [[ ${1-} == --bundle ]]; then
    [[ -n ${2-} ]] || die "--bundle wants a folder: ./tessera deps --bundle DIR"
    bundle "$2"
  elif (($#)); then
    die "unknown flag '$1'; usage: ./tessera deps [--bundle DIR]"
  else
    local set
    for set in core tests bench; do need "$set"; done
    need_tools
    find_torch
    say "everything is there; LibTorch is in $torch_dir"
  fi
}
