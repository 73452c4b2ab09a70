# shellcheck shell=bash disable=SC2034  # $environment is for whoever sources this.
# fill_environment PYTHON PACKAGE REQUIREMENT…: one test at a time.
fill_environment() {
  local python=$1 package=$2
  flock 8
  [[ ! -e $environment/.complete ]] || return 0
  rm -rf "$environment"
  "$python" -m venv "$environment"
  "$environment/bin/pip" index versions --disable-pip-version-check --retries 0 --timeout 15 "$package" >/dev/null 2>&1 || {
    echo "skipped: $package cannot be installed, since the package index does not answer"
    exit 77
  }
  "$environment/bin/pip" install --quiet --disable-pip-version-check "${@:3}"
  touch "$environment/.complete"
}

# need_package PYTHON PACKAGE VERSION MORE…: $environment is a virtual environment with that package, and others that it needs. Ends the
# test as skipped (77) if the package index does not answer.
need_package() {
  local python=$1 package=$2 version=$3
  environment=${XDG_CACHE_HOME:-$HOME/.cache}/tessera/peer-$package-$version
  if [[ ! -e $environment/.complete ]]; then
    fill_environment "$python" "$package" "$package==$version" "${@:4}" 8>"$(dirname "$environment")/.lock" # That of ./tessera, too.
  fi
}

# need_transformers PYTHON: the same with transformers, which finds the torch of PYTHON.
need_transformers() {
  local python=$1
  need_package "$python" transformers 4.57.1 safetensors numpy
  # torch is that of the build, which the environment does not hold a second time.
  PYTHONPATH=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  export PYTHONPATH OMP_NUM_THREADS=1
}
