#!/usr/bin/env bash
# gpu.sh [--only PART] [PEER] [SHAPE]: the tests that want a GPU, 20 steps with PyTorch's losses, steps of Llamas of 0.13 to 3.1 billion parameters beside PyTorch's, or
# beside those of the script PEER (SHAPE: of that many billions alone), then the kernels under compute-sanitizer. PART is build, tests, suites (tensors on the GPU), losses,
# speed or sanitize; those after build need it, and run even if one of them fails. For a machine with an NVIDIA GPU that has float8 (L4, H100 or newer) and a CUDA build of
# torch in python3; losses and speed also need its packages transformers and numpy. It needs no network where TESSERA_DEPS names a folder that `./tessera deps --bundle` made
# elsewhere.
set -euo pipefail
parts='build tests suites losses speed sanitize'
only=
if [[ ${1-} == --only ]]; then
  [[ " $parts " == *" ${2-} "* && -n ${2-} ]] || {
    echo "gpu.sh: --only takes one of $parts, but got '${2-}'" >&2
    exit 2
  }
  only=$2
  shift 2
fi
# From the caller's folder.
[[ ! -e ${1-} ]] || set -- "$(readlink -f "$1")" "${@:2}"
[[ -z ${TESSERA_DEPS-} ]] || TESSERA_DEPS=$(readlink -f "$TESSERA_DEPS")
cd "$(dirname "$0")/.."
python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null || {
  echo "gpu.sh: python3 has no torch that finds a GPU; nothing was tested" >&2
  exit 1
}

build() {
  local torch
  torch=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')/Torch
  cmake --preset release -B build/gpu -DTESSERA_TESTS=ON -DTESSERA_TORCH=ON -DTESSERA_CUDA=ON -DTorch_DIR="$torch" \
    -DTESSERA_DEPS="${TESSERA_DEPS-}"
  ninja -C build/gpu
  ctest --test-dir build/gpu -N >/dev/null # Asks each program for its tests, which the filters of the suites would hide.
}

tests() {
  ctest --test-dir build/gpu --output-on-failure --no-tests=error -j "$(nproc)" -L 'unit|ranks|golden|gpu'
}

# The suites whose tensors can lie on the GPU, which the ranks of a test share over Gloo, and the trainer's losses.
suites() {
  local programs suites
  programs='(collectives|differentiable|dtensor|sharded_flat|random_ranks|ddp_ranks|ddp_failures|ddp_rules|ddp_refusals|engine|non_finite|replica_check'
  programs+='|pipeline_ranks|pipeline_training|pipeline_failures|tensor_layers|tensor_vocabulary|tensor_engine|fully_shard|fully_shard_rules|parallelize_module|parallelize_module_rules|dialect_training|context_attention|context_engine|expert_engine|expert_options|expert_layouts|checkpoint|checkpoint_ranks|layer|recompute|optim|model)_test'
  suites='Collectives Differentiable DTensor ShardedFlat RandomOnRanks Ddp* Engine PipelineRanks PipelineTraining PipelineFailures '
  suites+='TensorLayers TensorVocabulary TensorParallel FullyShard FullyShardRules ParallelizeModule DialectTraining ContextAttention ContextParallel ExpertEngine ExpertOptions ExpertLayouts Checkpoints CheckpointRanks PackedAttention WindowAttention DeferredLinear AddingLinear Fp8Product Fp8Linear RmsNorm Rotary SelectiveRecompute NonFinite ReplicaCheck WeightAverage ClipGradNorm GradNorm AdamW Sgd EitherOptimizer Optimizers Llama'
  export TESSERA_TEST_DEVICE=cuda
  local failed=0
  # shellcheck disable=SC2086  # The names are words.
  GTEST_FILTER=$(printf '%s.*:' $suites) \
    ctest --test-dir build/gpu --output-on-failure --no-tests=error -j 8 -R "^$programs\$" || failed=1
  ctest --test-dir build/gpu --output-on-failure --no-tests=error -j 8 -R '^Train\.(Has|Writes|Other|Float8|Logits)' || failed=1
  return "$failed"
}

losses() { python3 bench/peers/torch_train.py losses build/gpu/bin/tessera; }
speed() { python3 bench/peers/torch_train.py gpu build/gpu/bin/tessera "$@"; }

# Each kernel under the checkers of NVIDIA's toolkit. Without LibTorch's cache each tensor is an allocation of its own, whose bounds memcheck knows. Products are those of
# cuBLAS, which is not ours to check. A seed of one's own means one round of random shapes.
sanitize() {
  local tool failed=0 seed=${TESSERA_SEED-$RANDOM}
  command -v compute-sanitizer >/dev/null || {
    echo "gpu.sh: there is no compute-sanitizer, so memory and races were not checked; it comes with NVIDIA's CUDA toolkit" >&2
    exit 1
  }
  echo "gpu.sh: random shapes of TESSERA_SEED=$seed"
  for tool in memcheck racecheck synccheck; do
    TESSERA_SEED=$seed PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool "$tool" --error-exitcode 1 \
      build/gpu/tests/gpu_test --gtest_filter='Kernels.*-Kernels.ProductsInFloat8' || failed=1
  done
  return "$failed"
}

if [[ -n $only ]]; then
  "$only" "$@"
  exit
fi
failed=
for part in $parts; do
  tests/gpu.sh --only "$part" "$@" || failed+=" $part"
  [[ $failed != ' build' ]] || break
done
[[ -z $failed ]] || {
  echo "gpu.sh: failed:$failed" >&2
  exit 1
}
