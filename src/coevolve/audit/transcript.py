"""Hash an environment's answers to references, task by task, to compare them between processes.

`python -m coevolve.audit.transcript NAME COUNT` prints the hashes as JSON. NAME may be MODULE:CLASS of an environment without a name.
"""

import json
import os
import subprocess
import sys

from coevolve.audit.subject import Subject, name
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.environments.registry import opened
from coevolve.environments.worker_main import end_with

SEED = "PYTHONHASHSEED"


def transcript(subject: Subject) -> dict[str, str]:
    """For each checked task, a hash of all answers, the score and the last digest."""
    found = {}
    for task in subject.tasks:
        one = subject.reference(task)
        told = [[heard.role, heard.content, heard.error, heard.done] for heard in one.heard]
        found[name(task)] = content_hash([task.turns, told, one.reward, one.checks, one.digest])
    return found


def elsewhere(place: str, count: int) -> dict[str, str]:
    """The transcript from another process, in which Python's hashes of texts differ."""
    code = [sys.executable, "-m", "coevolve.audit.transcript", place, str(count), str(os.getpid())]
    other = "1" if os.environ.get(SEED) != "1" else "2"
    done = subprocess.run(code, capture_output=True, text=True, env={**os.environ, SEED: other}, check=False)
    if done.returncode:
        raise CoevolveError(f"{place} does not open in another process: {done.stderr.strip()[-300:]}")
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    end_with(int(sys.argv[3]))
    print(json.dumps(transcript(Subject(opened(sys.argv[1]), int(sys.argv[2]), sys.argv[1]))))
