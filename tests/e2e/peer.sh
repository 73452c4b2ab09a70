# shellcheck shell=bash disable=SC2034  # $environment is for whoever sources this.
# need_transformers PYTHON: $environment is a virtual environment with transformers, which finds the torch of PYTHON. Ends the test as
# skipped (77) where the package index cannot be reached.
need_transformers() {
  local python=$1
  environment=${XDG_CACHE_HOME:-$HOME/.cache}/tessera/peer-transformers-4.57.1
  if [[ ! -e $environment/.complete ]]; then
    rm -rf "$environment"
    "$python" -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check transformers==4.57.1 safetensors numpy || {
      echo "transformers cannot be installed: is the package index out of reach?"
      exit 77
    }
    touch "$environment/.complete"
  fi
  # torch is that of the build, which the environment does not hold a second time.
  PYTHONPATH=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  export PYTHONPATH OMP_NUM_THREADS=1
}
