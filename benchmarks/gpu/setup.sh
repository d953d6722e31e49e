# Sourced by the other scripts: unpacks .gpu/1 to .gpu/3 into $WORK, and makes $WORK/run, a copy of the working tree in which stages
# run. The next call replaces the working tree and leaves $WORK as it is.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
TREE=$PWD GPU=$PWD/benchmarks/gpu WORK=${WORK:-/tmp/gpu} OUT=${OUT:-/tmp/out} PYTHON=${PYTHON:-python3}
mkdir -p "$WORK" "$OUT"
for part in .gpu/[123]; do
    test -d "$part" || continue
    cp -rf "$part"/. "$WORK"
    for archive in "$part"/*.tar.xz; do
        test -f "$archive" && $PYTHON -c "import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter='data')" "$archive" "$WORK"
    done
done
if ! test -d "$WORK/run"; then
    mkdir "$WORK/run"
    tar --exclude=./.gpu --exclude=./.git --exclude=./.venv --exclude=./models --exclude=./scratch -cf - . | tar -C "$WORK/run" -xf -
fi
unset PYTHONDONTWRITEBYTECODE # otherwise every stage compiles trl and peft again
export PYTHONPATH=$WORK/run/src:$WORK/site${PYTHONPATH:+:$PYTHONPATH} PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

say() { echo "[$(date +%T) +${SECONDS}s] $*" | tee -a "$OUT/log.txt"; }

stage() { # NAME [T] [SECONDS]: run a stage in this folder, and interrupt it after SECONDS, or when TOTAL seconds have passed
    local began=$SECONDS code=0 left=$((TOTAL - SECONDS))
    test "${3:-$left}" -lt "$left" && left=$3
    test "$left" -ge 5 || left=5
    timeout -k 15 -s INT "$left" $PYTHON "pipelines/$1.py" ${2:+"$2"} >> stages.txt 2>&1 || code=$?
    say "stage $1 ${2:-}: exit $code, $((SECONDS - began)) s"
    return $code
}
