#!/usr/bin/env bash
# gpu.sh [PEER]: the tests that want a GPU, then steps of a Llama of 0.95 billion parameters beside PyTorch's, or beside those of
# the script PEER. For a machine with an NVIDIA GPU and a CUDA build of torch in python3; it needs no network where TESSERA_DEPS
# names a folder that `./tessera deps --bundle` made elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
  echo "gpu.sh: python3 has no torch that finds a GPU; nothing was tested" >&2
  exit 1
}
torch=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')/Torch
cmake --preset release -B build/gpu -DTESSERA_TESTS=ON -DTESSERA_TORCH=ON -DTESSERA_CUDA=ON -DTorch_DIR="$torch" \
  -DTESSERA_DEPS="${TESSERA_DEPS-}"
ninja -C build/gpu
ctest --test-dir build/gpu --output-on-failure --no-tests=error -j "$(nproc)" -L 'unit|ranks|golden|gpu'
# The trainer's losses, alone and on several ranks that share the GPU over Gloo.
TESSERA_TEST_DEVICE=cuda ctest --test-dir build/gpu --output-on-failure --no-tests=error -R '^Train\.(Has|Writes|Other)'
python3 bench/peers/torch_train.py gpu build/gpu/bin/tessera "$@"
