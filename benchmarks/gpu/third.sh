#!/usr/bin/env bash
# Third call: the rest of iteration 0, after a training that finished, in TOTAL seconds (150).
source "$(dirname "$0")/setup.sh"
TOTAL=${TOTAL:-150}
cd "$WORK/run" || exit 1
for name in signals generate explore synthesize verify validate; do
    stage $name 0 || { tail -5 stages.txt; break; }
done
tar -czf "$OUT/third.tgz" data/*/summary data/0/verified data/1/validation stages.txt scratch/seconds.jsonl 2> /dev/null
wc -l data/*/tasks.jsonl | tee "$OUT/results.txt"
