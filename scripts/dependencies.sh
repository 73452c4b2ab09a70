# shellcheck shell=bash disable=SC2154  # $root and $cache come from ./tessera and common.sh.
# What the build needs besides torch: looked for first, installed by apt where something is missing.

# For whom | how it is found | Debian's package | its name for people
dependencies='
core   | compiler                     | g++                 | a C++20 compiler (g++ 12 or clang 15, or newer)
core   | cmake 3.25                   | cmake               | CMake 3.25 or newer
core   | command ninja                | ninja-build         | Ninja
core   | header nlohmann/json.hpp     | nlohmann-json3-dev  | nlohmann-json
core   | header CLI/CLI.hpp           | libcli11-dev        | CLI11
core   | header yaml-cpp/yaml.h       | libyaml-cpp-dev     | yaml-cpp
core   | header toml++/toml.h         | libtomlplusplus-dev | toml++
core   | header pcre2posix.h          | libpcre2-dev        | PCRE2
core   | header utf8proc.h            | libutf8proc-dev     | utf8proc
tests  | header gtest/gtest.h         | libgtest-dev        | GoogleTest
tests  | header rapidcheck.h          | librapidcheck-dev   | RapidCheck
tests  | python ensurepip             | python3-venv        | Python 3 with venv
tests  | command mpirun               | openmpi-bin         | mpirun of Open MPI
tests  | command ss                   | iproute2            | ss
tests  | command chromium             | chromium            | Chromium
tests  | command chromedriver         | chromium-driver     | chromedriver
tests  | command doxygen              | doxygen             | Doxygen
tests  | command dpkg-shlibdeps       | dpkg-dev            | dpkg-shlibdeps
tests  | command pkg-config           | pkgconf             | pkg-config
tests  | command zsh                  | zsh                 | zsh
tests  | command fish                 | fish                | fish
bench  | header benchmark/benchmark.h | libbenchmark-dev    | google-benchmark
python | python ensurepip             | python3-venv        | Python 3 with venv
soak   | command clang++-15           | clang-15            | clang 15
docs   | command doxygen              | doxygen             | Doxygen
'

# For people who check the code's form; the same version everywhere, so that all see the same result.
tools_version=18.1.8

preprocess() { # shellcheck disable=SC2086  # CXX may be several words, as in "ccache g++".
  ${CXX:-c++} ${TESSERA_DEPS:+-isystem "$TESSERA_DEPS/usr/include"} -E -x c++ - <<<"$1"
}

is_there() { # KIND NAME…
  case $1 in
    compiler) preprocess '#include <version>' ;;
    cmake) have cmake && [[ $(printf '%s\n' "$2" "$(cmake --version | sed -n '1s/.* //p')" | sort -V | head -n 1) == "$2" ]] ;;
    command) have "$2" ;;
    header) preprocess "#include <$2>" ;;
    python) python3 -c "import $2" ;;
  esac >/dev/null 2>&1
}

# need SET…: everything of these sets is there afterwards. A stamp makes the next start quick.
need() {
  local set stamp probe package name packages=() names=()
  local state="${CXX-} ${TESSERA_DEPS-}"
  [[ -z ${CXX-} ]] || is_there compiler || die "CXX=$CXX does not compile; name a compiler that is installed, or unset CXX"
  for set in "$@"; do
    stamp=$root/build/.have-$set
    [[ $stamp -nt $root/scripts/dependencies.sh && $(<"$stamp") == "$state" ]] && continue
    while IFS='|' read -r _ probe package name; do
      # shellcheck disable=SC2086  # Several words.
      is_there $probe && continue
      packages+=("${package// /}")
      names+=("${name# }")
    done < <(grep "^$set " <<<"$dependencies")
  done
  ((${#packages[@]} == 0)) || install_packages "${packages[*]}" "$(printf '\n  %s' "${names[@]}")"
  mkdir -p "$root/build"
  for set in "$@"; do echo "$state" >"$root/build/.have-$set"; done
}

install_packages() { # PACKAGES NAMES
  local as_root=()
  ((EUID == 0)) || as_root=(sudo)
  have apt-get || die "these are missing:$2
Install them with your system's packages. Libraries (not compilers and tools) can also come from a Debian machine: run
\`./tessera deps --bundle DIR\` there, copy DIR here, and set TESSERA_DEPS=DIR."
  ((EUID == 0)) || have sudo || die "these are missing:$2
Ask an administrator for: apt-get install $1
Libraries alone can also come from another machine: \`./tessera deps --bundle DIR\` there, TESSERA_DEPS=DIR here."
  ((EUID == 0)) || sudo --validate # It may ask for a password, which it cannot do in the background.
  # Services that a package starts must not keep our locks.
  quietly "reading the package lists" "${as_root[@]}" apt-get update 8>&- 9>&-
  # shellcheck disable=SC2086  # Several packages.
  quietly "installing $1" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends $1 8>&- 9>&-
}

# ccache makes the next build from nothing quick. Nobody is asked for a password for it, and nothing fails without it.
wish_for_ccache() {
  ! have ccache && ((EUID == 0)) && have apt-get || return 0
  [[ ! -e $root/build/.no-ccache ]] || return 0
  quietly "installing ccache" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ccache 8>&- 9>&- && return
  touch "$root/build/.no-ccache"
  say "the build does without ccache"
}

# virtual_environment FOLDER FILLER ARGUMENT…: a virtual environment in the cache, complete or not there at all. The filler is a
# function that installs into the folder, which is its first argument.
virtual_environment() {
  local folder=$1 filler=$2
  shift 2
  [[ -e $folder/.complete ]] && return
  need python
  lock_cache
  if [[ ! -e $folder/.complete ]]; then
    rm -rf "$folder"
    python3 -m venv "$folder"
    "$filler" "$folder" "$@"
    touch "$folder/.complete"
  fi
  unlock_cache
}

# index_has FOLDER PACKAGE: whether the package index knows it. This asks once; `pip install` would go on asking for a minute.
index_has() {
  "$1/bin/pip" index versions --disable-pip-version-check --retries 0 --timeout 15 "$2" >/dev/null 2>&1
}

pip_install() { # FOLDER PIP-ARGUMENTS…
  local folder=$1
  shift
  "$folder/bin/pip" install --disable-pip-version-check "$@"
}

fill_tools() {
  index_has "$1" clang-format || die "clang-format and clang-tidy $tools_version, which a test runs, cannot be installed: the package index does not answer.
\`./tessera build\` needs neither."
  quietly "installing clang-format and clang-tidy $tools_version" \
    pip_install "$1" "clang-format==$tools_version" "clang-tidy==$tools_version"
}

need_tools() {
  tools=$cache/tools-$tools_version
  virtual_environment "$tools" fill_tools
}

# Headers, libraries and CMake files of our libraries, as a prefix that CMake takes from TESSERA_DEPS.
bundle() { # FOLDER
  local package file
  have dpkg-query || die "a bundle is made of Debian's packages; run this on Debian or Ubuntu"
  need core tests bench
  mkdir -p "$1"
  for package in nlohmann-json3-dev libcli11-dev libyaml-cpp-dev libtomlplusplus-dev libpcre2-dev libutf8proc-dev libgtest-dev librapidcheck-dev libbenchmark-dev; do
    while read -r file; do
      [[ -f $file && $file != /usr/share/doc/* ]] || continue
      cp --no-dereference --parents "$file" "$1"
      if [[ -L $file ]]; then cp --no-dereference --parents "$file".* "$1"; fi # A library's link to its versions: they come along.
    done < <(dpkg-query --listfiles "$package")
  done
  say "$1 holds the libraries; build elsewhere with TESSERA_DEPS=$1"
}

run_deps() {
  if [[ ${1-} == --bundle ]]; then
    [[ -n ${2-} && $2 != -* ]] || misused "--bundle requires a folder: ./tessera deps --bundle DIR"
    bundle "$2"
  elif (($#)); then
    misused "unknown flag '$1'; usage: ./tessera deps [--bundle DIR]"
  else
    need core tests bench
    wish_for_ccache
    need_tools
    find_torch
    say "everything is there; LibTorch is in $torch_dir"
  fi
}
