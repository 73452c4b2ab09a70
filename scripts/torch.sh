# shellcheck shell=bash disable=SC2154,SC2034  # $torch_dir is for build.sh; $cache comes from common.sh.
# Where LibTorch is: Torch_DIR or CMAKE_PREFIX_PATH, the active python3's torch, a private environment.

torch_version=2.13.0

# The folder of TorchConfig.cmake in each place that the caller named.
torch_of_environment() {
  local place folder
  for place in "${Torch_DIR-}" ${CMAKE_PREFIX_PATH:+$(tr ':;' '\n' <<<"$CMAKE_PREFIX_PATH")}; do
    for folder in "$place" "$place/share/cmake/Torch" "$place/Torch"; do
      [[ -e $folder/TorchConfig.cmake ]] && echo "$folder" && return
    done
  done
  return 1
}

# The same for a python with torch 2.11 or newer; torch itself is not imported, that takes seconds.
torch_of_python() { # PYTHON
  "$1" - 2>/dev/null <<'PYTHON'
import importlib.metadata, importlib.util, pathlib, re, sys
spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    sys.exit(1)
version = tuple(int(part) for part in re.findall(r"\d+", importlib.metadata.version("torch"))[:2])
folder = pathlib.Path(spec.origin).parent / "share" / "cmake" / "Torch"
if version < (2, 11) or not (folder / "TorchConfig.cmake").exists():
    sys.exit(1)
print(folder)
PYTHON
}

install_torch() { # FOLDER
  virtual_environment "$1"
  # The CPU build where the index has one: it is a tenth of the size.
  # shellcheck disable=SC2016  # For the inner bash to expand.
  quietly "installing torch $torch_version; this takes a while" bash -c '
    "$1" install --disable-pip-version-check "torch==$2+cpu" ||
    "$1" install --disable-pip-version-check "torch==$2"' - "$1/bin/pip" "$torch_version"
  touch "$1/.complete"
}

find_torch() {
  torch_dir=$(torch_of_environment) && return
  torch_dir=$(torch_of_python python3) && return
  local private=$cache/torch-$torch_version
  [[ -e $private/.complete ]] || install_torch "$private"
  torch_dir=$(torch_of_python "$private/bin/python") ||
    die "torch in $private has no CMake files; remove the folder and start again"
}
