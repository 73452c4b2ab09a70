# shellcheck shell=bash disable=SC2034  # $environment is for whoever sources this.
# fill_environment PYTHON: one test at a time.
fill_environment() {
  flock 8
  [[ ! -e $environment/.complete ]] || return 0
  rm -rf "$environment"
  "$1" -m venv "$environment"
  "$environment/bin/pip" index versions --disable-pip-version-check --retries 0 --timeout 15 transformers >/dev/null 2>&1 || {
    echo "skipped: transformers cannot be installed, since the package index does not answer"
    exit 77
  }
  "$environment/bin/pip" install --quiet --disable-pip-version-check transformers==4.57.1 safetensors numpy
  touch "$environment/.complete"
}

# need_transformers PYTHON: $environment is a virtual environment with transformers, which finds the torch of PYTHON. Ends the test as
# skipped (77) if the package index does not answer.
need_transformers() {
  local python=$1
  environment=${XDG_CACHE_HOME:-$HOME/.cache}/tessera/peer-transformers-4.57.1
  if [[ ! -e $environment/.complete ]]; then
    fill_environment "$python" 8>"$(dirname "$environment")/.lock" # That of ./tessera, too.
  fi
  # torch is that of the build, which the environment does not hold a second time.
  PYTHONPATH=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  export PYTHONPATH OMP_NUM_THREADS=1
}
