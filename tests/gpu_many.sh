#!/usr/bin/env bash
# gpu_many.sh: for a machine with several NVIDIA GPUs, what one GPU cannot show: the rank suites and the trainer's layouts over NCCL, the
# parity matrix, and a scaling table. All parts run if the build does, even if one of them fails. Needs what gpu.sh needs; the parity matrix
# needs the package index, too.
set -euo pipefail
cd "$(dirname "$0")/.."
gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l) || gpus=0
((gpus > 1)) || {
  echo "gpu_many.sh: this machine has $gpus GPUs; it needs at least 2, so nothing was tested" >&2
  exit 1
}
failed=
attempt() { # PART COMMAND…
  local part=$1
  shift
  "$@" || failed+=" $part"
}

tests/gpu.sh --only build
# Tests whose ranks have a GPU each talk over NCCL; those with more ranks share GPUs, over Gloo.
for part in tests suites losses; do
  attempt "$part" tests/gpu.sh --only "$part"
done
export TESSERA_TEST_DEVICE=cuda
attempt trainer ctest --test-dir build/gpu --output-on-failure --no-tests=error -j 1 -R '^(Context)?Train'
attempt scaling bench/scaling build/gpu/bin/tessera --device cuda --dtype bf16 --model.hidden_size=2048 --model.intermediate_size=5632 \
  --model.num_hidden_layers=16 --model.num_attention_heads=16 --model.num_key_value_heads=16 --model.vocab_size=32000 --seq 2048
attempt parity env TESSERA_MATRIX=1 tests/e2e/parity build/gpu/bin/tessera build/gpu/tests/llama_logits python3 # Fails without a package index.
[[ -z $failed ]] || {
  echo "gpu_many.sh: failed:$failed" >&2
  exit 1
}
