#!/bin/sh
# Write traces.jsonl: verifiers' own evaluation of miniworld_vf with a scripted model. Needs a virtual environment of its own
# (verifiers needs mcp 2.0.0): python -m venv V && V/bin/pip install verifiers==0.4.0 uv
# Usage: verifiers_run.sh V. The last line of traces.jsonl.gz is from a run whose tool server could not start.
set -e
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../../../.." && pwd)
printf '%s\n%s\n' "$repository/src" "$here" > "$("$1/bin/python" -c 'import site; print(site.getsitepackages()[0])')/made.pth"
PATH="$1/bin:$PATH"
export PATH OPENAI_API_KEY=none
python "$here/scripted_server.py" 8917 &
server=$!
trap 'kill $server' EXIT
sleep 2
folder=$(mktemp -d)
vf-eval --env.taskset.id miniworld_vf --env.agent.harness.id null --env.agent.runtime.type subprocess --model scripted \
  --client.base-url http://127.0.0.1:8917/v1 --client.api-key-var OPENAI_API_KEY --num-rollouts 3 --max-concurrent 2 \
  --no-push --output-dir "$folder" --run.dir run
gzip -9 -n -c "$folder/run/traces.jsonl" > "$here/traces.jsonl.gz"
