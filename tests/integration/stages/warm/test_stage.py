"""Stage `warm` measures the policy of a user's own environment, and stops a run that could learn nothing."""

from pathlib import Path

import yaml

from coevolve.core.io import read_json
from tests.integration.commands.test_init import OWN, coevolve, make


def test_policy_that_solves_nothing_stops_before_the_loop(tmp_path: Path) -> None:
    (tmp_path / "my_lamp.py").write_text(OWN)
    project = make(tmp_path / "mine", "--environment", f"{tmp_path / 'my_lamp.py'}:MyEnvironment")
    file = project / "params.yaml"
    params = yaml.safe_load(file.read_text())
    params["base"] |= {"copy_steps": 0, "demonstration_steps": 0, "unreliable_steps": 0}
    params["warm"]["steps"] = 0
    file.write_text(yaml.safe_dump(params))
    for stage in ("code", "base", "tasks"):
        coevolve("stage", stage, cwd=project)
    stopped = coevolve("stage", "warm", cwd=project)
    assert stopped.returncode == 1 and "Traceback" not in stopped.stderr
    assert "warm.steps is 0 and success on 1 held-out training tasks is still 0" in stopped.stderr
    assert "try 300" in stopped.stderr and "--model" in stopped.stderr and not (project / "policies/0").exists()
    params["base"] |= {"demonstration_steps": 100}
    file.write_text(yaml.safe_dump(params))
    for stage in ("code", "base", "warm"):
        done = coevolve("stage", stage, cwd=project)
    note = "policies/0 solves 1.00 of 1 held-out training tasks, after 0 of 0 warm.steps (warm.until: 0.5)"
    assert note in done.stdout and note in read_json(project / "data/0/summary/warm.json")["notes"]
