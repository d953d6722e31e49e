#!/usr/bin/env bash
# Second call: SmolLM2 through warm start, evaluation, GRPO and evaluation, in TOTAL seconds (500). Training gets what the others leave.
#
#     bash benchmarks/gpu/second.sh [KEY=VALUE...]     # keys of params.yaml, such as grpo.beta=0.01
#
# A second arm in the same $WORK repeats only the stages whose code or parameters differ, and those after them.
source "$(dirname "$0")/setup.sh"
TOTAL=${TOTAL:-500}
cd "$WORK/run" && mkdir -p .done && cp "$TREE/params.yaml" . || exit 1

keep() { # at most eight files: the adapters, an archive of the rest, and the files that say most
    local t
    for t in 0 1; do
        test -d "policies/$t/adapter" && mkdir -p "$OUT/adapter-$t" && cp policies/$t/adapter/* "$OUT/adapter-$t"
    done
    tar -czf "$OUT/run.tgz" params.yaml stages.txt evaluations data/*/summary scratch/train/*/steps/*.json scratch/seconds.jsonl 2> /dev/null
    cp data/0/train_metrics.jsonl "$OUT" 2> /dev/null
}
trap keep EXIT

same=yes
fresh() { # NAME [T] [SECONDS]: run the stage, unless it and those before it ran with the same code and parameters
    test $same = yes && cmp -s "data/code/$1.json" ".done/$1" && return
    same=no
    rm -f ".done/$1"
    stage "$@" && cp "data/code/$1.json" ".done/$1"
}

rm -rf policies/1 evaluations/1 data/0/train_metrics.jsonl
model=$($PYTHON "$GPU/arm.py" set "$@") || exit 1
cmp -s params.yaml .done/params.yaml || rm -rf scratch/train # checkpoints of another arm; the same arm goes on from its own
cp params.yaml .done
$PYTHON -m coevolve.cli stage code >> stages.txt 2>&1 || exit 1
if test "$model" != tiny; then # git holds the tiny policy
    test -f "$model/config.json" || $PYTHON "$GPU/model_pack.py" unpack "$WORK/model" "$model" || exit 1
    say "$model unpacked"
    fresh base || exit 1
fi
fresh tasks || exit 1
if test -d "$WORK/adapter-0" && ! test -f .done/warm; then
    $PYTHON "$GPU/arm.py" policy policies/base "$WORK/adapter-0" policies/0 || exit 1
    say "policies/0 from the adapter of an earlier day"
    cp data/code/warm.json .done/warm
fi
fresh warm "" "${WARM:-200}" || exit 1
fresh generator
fresh replay
fresh evaluate 0 150
keep
stage pairs 0
say "training for at most $((TOTAL - SECONDS - ${RESERVE:-75})) s"
if ! stage train 0 $((TOTAL - SECONDS - ${RESERVE:-75})); then
    last=$(ls -d scratch/train/*/checkpoint-*/complete 2> /dev/null | sort -V | tail -1)
    test -n "$last" && $PYTHON "$GPU/arm.py" policy policies/0 "${last%/complete}" policies/1 && say "policies/1 is ${last%/complete}"
fi
keep
test -d policies/1 && stage evaluate 1
tail -4 stages.txt
$PYTHON "$GPU/arm.py" results | tee "$OUT/results.txt"
