# shellcheck shell=bash disable=SC2154,SC2034  # $torch_dir is for build.sh; $cache comes from common.sh.
# Where LibTorch is: Torch_DIR or CMAKE_PREFIX_PATH, the active python3's torch, a private environment.

torch_version=2.13.0

# The folder of TorchConfig.cmake that the caller named, if any; a wrong name is an error, not a reason to look elsewhere.
torch_of_environment() {
  local place folder places
  if [[ -n ${Torch_DIR-} ]]; then
    [[ -e $Torch_DIR/TorchConfig.cmake ]] ||
      die "Torch_DIR=$Torch_DIR holds no TorchConfig.cmake; in a Python torch it is torch/share/cmake/Torch"
    echo "$Torch_DIR" && return
  fi
  IFS=':;' read -ra places <<<"${CMAKE_PREFIX_PATH-}"
  for place in "${places[@]}"; do
    for folder in "$place/share/cmake/Torch" "$place/Torch" "$place"; do
      [[ -e $folder/TorchConfig.cmake ]] && echo "$folder" && return
    done
  done
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

# The CPU build where the index has one: it is a tenth of the size.
pip_install_torch() { pip_install "$1" "torch==$torch_version+cpu" || pip_install "$1" "torch==$torch_version"; }
fill_torch() {
  index_has "$1" torch || die "torch $torch_version cannot be installed: the package index does not answer. Without a network:
  Torch_DIR=DIR     uses a torch 2.11 or newer that is there; DIR holds TorchConfig.cmake (in a Python torch: torch/share/cmake/Torch)
  TESSERA_DEPS=DIR  uses the other libraries from a bundle, which \`./tessera deps --bundle DIR\` makes on a machine with a network"
  quietly "installing torch $torch_version; this takes a while" pip_install_torch "$1"
}

find_torch() {
  torch_dir=$(torch_of_environment) || exit 1
  [[ -z $torch_dir ]] || return 0
  torch_dir=$(torch_of_python python3) && return
  local private=$cache/torch-$torch_version
  virtual_environment "$private" fill_torch
  torch_dir=$(torch_of_python "$private/bin/python") ||
    die "torch in $private has no CMake files; remove the folder and start again"
}

# Megatron-Core beside torch, for side-by-side runs; its other dependencies are not needed for its groups.
fill_peer() {
  fill_torch "$1"
  quietly "installing what Megatron-Core imports" pip_install "$1" numpy packaging
  quietly "installing Megatron-Core" pip_install "$1" --no-deps megatron-core==0.16.1
}
need_peer() { virtual_environment "$cache/peer-megatron" fill_peer; }

# OLMo-core 2.6, with everything that it imports.
fill_olmo_peer() {
  fill_torch "$1"
  quietly "installing OLMo-core" pip_install "$1" ai2-olmo-core==2.6.0
}
need_olmo_peer() { virtual_environment "$cache/peer-olmo" fill_olmo_peer; }
# NeMo AutoModel; what it needs beside torch is for models and CUDA, not for its meshes.
fill_nemo_peer() {
  fill_torch "$1"
  quietly "installing what NeMo AutoModel imports" pip_install "$1" numpy packaging
  quietly "installing NeMo AutoModel" pip_install "$1" --no-deps nemo-automodel==0.7.0
}
need_nemo_peer() { virtual_environment "$cache/peer-nemo" fill_nemo_peer; }

# transformers; it runs on the torch of another environment.
fill_transformers_peer() { quietly "installing transformers" pip_install "$1" transformers==4.57.1 safetensors numpy; }
need_transformers_peer() { virtual_environment "$cache/peer-transformers-4.57.1" fill_transformers_peer; }
