#!/usr/bin/env bash
# First call: what the machine is, and speed with random weights. Needs no pretrained model. The cases are in order of worth, and
# BENCH seconds (170) end them. CASES="smoke-bf16-share" measures other cases.
source "$(dirname "$0")/setup.sh"
{ nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
  nproc
  free -g | sed -n 2p
  $PYTHON -c "import torch, transformers, peft, trl, pydantic; print(*(f'{m.__name__} {m.__version__}' for m in (torch, transformers, peft, trl, pydantic)), sep=', ')"
} 2>&1 | tee "$OUT/machine.txt"
say "set up"
cd "$WORK/run" || exit 1
CASES=${CASES:-135M-fp32-share 135M-fp32 135M-bf16-share 135M-bf16 135M-full-fp32-share 135M-full-bf16-share 0.6B-bf16-share 0.6B-bf16 0.6B-bf16-recompute}
timeout "${BENCH:-170}" $PYTHON benchmarks/gpu/bench.py --steps 1 --reply 48 --out "$OUT/bench.jsonl" --cases $CASES 2>&1 | tee "$OUT/bench.txt"
say "first call done"
