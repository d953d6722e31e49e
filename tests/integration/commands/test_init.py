"""`coevolve init` makes a whole project or none. Errors are one line."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from coevolve.cli import parser
from coevolve.commands import init, stage
from coevolve.core.errors import CoevolveError
from coevolve.core.pipeline import of_project
from coevolve.core.section import load_yaml, read_yaml
from coevolve.environments.sources import environment_code
from coevolve.stages.schema import load
from coevolve.stages.warm.config import NEW_WORDS
from tests import POLICY, ROOT
from tests.cli import coevolve
from tests.waiting import PATIENCE


def make(folder: Path, *options: str) -> Path:
    assert init.run(parser(["init"]).parse_args(["init", str(folder), *options])) == 0
    return folder


def test_new_project_has_what_the_loop_needs_and_no_test_files(tmp_path: Path) -> None:
    project = make(tmp_path / "mine", "--profile", "smoke")
    names = {path.name for path in project.iterdir()}
    assert names == {
        ".dvc", ".dvcignore", ".git", ".gitattributes", ".github", ".gitignore", "README.md", "dvc.yaml", "params.yaml", "reviews"
    }  # fmt: skip
    params = load(project / "params.yaml")
    assert params.environment == "miniworld" and params.train.steps < load(ROOT / "params.yaml").train.steps
    assert "no_scm" not in (project / ".dvc/config").read_text()
    assert not [path for path in tmp_path.iterdir() if path != project], "nothing half-made is left"


def test_profile_for_another_environment_warms_up_on_its_seed_split(tmp_path: Path) -> None:
    assert load(make(tmp_path / "its own", "--profile", "smollm2-135m") / "params.yaml").warm.split == "broad"
    project = make(tmp_path / "another", "--profile", "smollm2-135m", "--environment", "sql")
    warm = load(project / "params.yaml").warm
    assert (warm.split, warm.steps) == ("seed", 80)
    assert load(make(tmp_path / "third", "--profile", "qwen3-4b") / "params.yaml").environment == "miniworld"


def test_project_pipeline_equals_ours_except_for_commands_and_stage_code() -> None:
    """They differ in the commands of the stages, in the dependencies of stage `code`."""
    text = (ROOT / "dvc.yaml").read_text()
    ours, theirs = read_yaml(text), read_yaml(of_project(text))
    assert theirs["stages"].pop("code") == {
        "desc": ours["stages"].pop("code")["desc"],
        "cmd": "coevolve stage code",
        "always_changed": True,
        "outs": ["data/code"],
    }
    for entry in ours["stages"].values():
        body = entry.get("do", entry)
        body["cmd"] = body["cmd"].replace("PYTHONPATH=src python pipelines/", "coevolve stage ").replace(".py", "")
    assert theirs == ours


OWN = """\
from coevolve.core.task import ToolCall
from coevolve.environments.methods import MethodEnvironment


class Lamp:
    def __init__(self, lit: bool) -> None:
        self.lit = lit

    def switch(self) -> str:
        "Switch the lamp."
        self.lit = not self.lit
        return "done"


class MyEnvironment(MethodEnvironment):
    name, simulator, panels = "lamp", Lamp, ("exam",)

    def questions(self, split):
        yield f"light it ({split})", {"lit": False}, [ToolCall("switch", {})]
"""


def test_environment_in_a_file_needs_no_installation(tmp_path: Path) -> None:
    (tmp_path / "my_lamp.py").write_text(OWN)
    project = make(tmp_path / "mine", "--environment", f"{tmp_path / 'my_lamp.py'}:MyEnvironment")
    params = load_yaml(project / "params.yaml", "")
    assert params["environment"] == "lamp" and params["warm"] == NEW_WORDS
    assert params["train"]["keep_base"] == 0.0
    text = (project / "params.yaml").read_text()
    assert f"# {init.WHY['warm.steps']}" in text
    values = params["tasks"]["seed_tasks"], params["verify"]["words"], params["report"]["panel"]
    assert values == (1, "values", "exam") and "miniworld has" not in text
    assert list(params)[:7] == ["seed", "method", "environment", "iterations", "warm", "train", "verify"]
    shown = coevolve("env", "show", "lamp", cwd=project)
    assert shown.stdout.startswith("lamp,") and "switch()" in shown.stdout


def test_workflow_of_a_project_runs_in_a_clone_of_it(tmp_path: Path) -> None:
    """Each step as GitHub runs it. The packages are installed, and the loop stops after its first stages."""
    assert coevolve("env", "new", "shop", cwd=tmp_path).returncode == 0
    project = make(tmp_path / "mine", "--environment", f"{tmp_path}/shop/shop.py:Shop")
    clone = tmp_path / "runner/mine"
    author = {f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **author, "PATH": path, "PYTHONPATH": str(ROOT / "src")}

    def ran(command: str, folder: Path) -> str:
        done = subprocess.run(
            ["bash", "-e", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    ran(f"git add -A && git commit -qm start && git clone -q . {clone}", project)
    workflow = load_yaml(clone / ".github/workflows/check.yml", "")
    assert set(workflow) == {"name", "on", "jobs"}
    install, *steps = [step for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    assert version("coevolve") in install["run"]
    said = {step["name"]: ran(step["run"].replace("dvc repro", "dvc repro tasks"), clone) for step in steps}
    assert said["Lint"] == "All checks passed!\n"
    assert "data.coverage" in said["Play the environment"]
    assert (tmp_path / "runner/smoke/data/0/tasks.jsonl").exists()
    assert "train@0" in said["List what has changed since the committed run"]


BROKEN = {
    "broken.py": "raise ImportError('no module of mine')",
    "slip.py": "def f(:",
    "odd.py": OWN.replace('"lamp"', r"""'a"b\n../[red]x[/red]'"""),
}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--environment", "no_such"], "environment 'no_such' is unknown"),
        (["--environment", "nowhere.py:Mine"], "there is no file nowhere.py"),
        (["--environment", "{folder}/broken.py:Mine"], "cannot be imported: no module of mine"),
        (["--environment", "{folder}/slip.py:Mine"], "SyntaxError: invalid syntax ({folder}/slip.py, line 1)"),
        (
            ["--environment", "{folder}/odd.py:MyEnvironment"],
            r"\n../[red]x[/red]' is no environment's name; use letters",
        ),
        (["--environment", '{folder}/odd.py:My"Environment'], "expected FILE.py:CLASS"),
        (["--method", "none"], "method: expected one of"),
        (["--model", "{folder}/empty"], "is not a model directory: config.json is missing"),
    ],
)
def test_mistake_is_a_one_line_error_and_creates_nothing(options: list[str], words: str, tmp_path: Path) -> None:
    for name, text in BROKEN.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(CoevolveError) as caught:
        make(tmp_path / "mine", *(option.format(folder=tmp_path) for option in options))
    assert words.format(folder=tmp_path) in str(caught.value) and "\n" not in str(caught.value)
    assert sorted(path for path in tmp_path.iterdir() if path.name != "__pycache__") == before


def test_folder_with_an_odd_name_is_shown_for_a_shell_and_controls_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "mein Projekt ü")
    assert f"  cd '{tmp_path}/mein Projekt ü'\n" in capsys.readouterr().out
    make(tmp_path / "a\x1b]0;title\x07b")
    assert r"a\x1b]0;title\x07b" in (said := capsys.readouterr().out) and said.replace("\n", "").isprintable()


PARTS = {
    "parts.py": "import json\nfrom pathlib import Path\nfrom rooms.names import NAME\n"
    + OWN.replace('"lamp"', "NAME").replace(
        "        self.lit = not",
        "        json.loads((Path(__file__).parent / 'facts/lamp.json').read_text())\n        self.lit = not",
    ),
    "rooms/__init__.py": "",
    "rooms/names.py": "NAME = 'parts'\n",
    "facts/lamp.json": "{}",
    "notes.txt": "nobody reads this",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_files_that_the_environment_uses_are_copied_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module beside it, and a file that only a call reads."""
    source = write(tmp_path / "source", PARTS)
    project = make(tmp_path / "mine", "--environment", f"{source}/parts.py:MyEnvironment")
    copied = ["facts/lamp.json", "parts.py", "rooms/__init__.py", "rooms/names.py"]
    assert f"copied from {source}: {', '.join(copied)}\n" in capsys.readouterr().out
    assert not (project / "notes.txt").exists()
    shutil.rmtree(source)
    monkeypatch.chdir(project)
    before = environment_code("parts")
    (project / "facts/lamp.json").write_text('{"changed": 1}')
    assert environment_code("parts") != before, "another fact is another environment"
    shown = coevolve("evaluate", "--environment", "parts", "--policy", "reference", "--split", "exam", cwd=project)
    assert "1.000" in shown.stdout, shown.stderr


def test_hidden_files_beside_the_environment_stay_out_of_a_project_and_of_git(tmp_path: Path) -> None:
    """It reads .env, as python-dotenv does, and the project's first command would commit a copy."""
    reads = (
        "from pathlib import Path\nfor name in ('.env', '.keys/one', 'facts'):\n    file = Path(__file__).parent / name\n"
        "    file.exists() and file.read_text()\n"
    )
    hidden = {".env": "KEY=sk-secret", ".keys/one": "sk-secret"}
    source = write(tmp_path / ".source", {"dotted.py": reads + OWN, "facts": "copied", **hidden})
    project = make(tmp_path / "mine", "--environment", f"{source}/dotted.py:MyEnvironment")
    assert (project / "facts").read_text() == "copied"
    assert not any("sk-secret" in file.read_text(errors="replace") for file in project.rglob("*") if file.is_file())


UNFIT = {
    "hidden.py": (
        "from pathlib import Path\nKEY = Path(__file__).with_name('.env').read_text()\n" + OWN,
        "keys in environment variables instead of hidden files",
    ),
    "outside.py": (
        OWN.replace('"lamp"', "(Path(__file__).parent.parent / 'name.txt').read_text()").replace(
            "class Lamp", "from pathlib import Path\n\n\nclass Lamp", 1
        ),
        "works where it is, but not in a project, which gets outside.py: ",
    ),
    "random.py": (OWN, "random is also the name of a module"),
    "taken.py": (OWN.replace('"lamp"', '"miniworld"'), "the name 'miniworld' belongs to coevolve"),
    "own_params.py": (
        "from pathlib import Path\nTEXT = (Path(__file__).parent / 'params.yaml').read_text()\n" + OWN,
        "uses params.yaml beside it, and a project has its own params.yaml; rename yours",
    ),
    "hintless.py": (OWN.replace("lit: bool)", "lit)").replace("def switch(self)", "def switch(self, how)"), "how"),
    "failing.py": (OWN.replace("self.lit = not self.lit", "raise KeyError('no bulb')"), "KeyError: 'no bulb'"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_environment_that_does_not_play_is_not_ready_and_says_why(name: str, tmp_path: Path) -> None:
    text, words = UNFIT[name]
    source = write(
        tmp_path / "source", {name: text, "../name.txt": "outside", ".env": "KEY=1", "params.yaml": "a: 1\n"}
    )
    with pytest.raises(CoevolveError) as caught:
        make(tmp_path / "mine", "--environment", f"{source}/{name}:MyEnvironment")
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("line", [".*", "*.yaml", "*.lock", "/mine/", "params.*"])
def test_repository_that_ignores_what_dvc_needs_is_told_before_ready(line: str, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text(f"# ours\n!*.lock\n{line}\n")
    with pytest.raises(CoevolveError, match=r"git ignores mine/.* line 3 of .gitignore is .* name a folder elsewhere"):
        make(tmp_path / "mine")
    assert {path.name for path in tmp_path.iterdir()} == {".git", ".gitignore"}
    (tmp_path / ".gitignore").write_text("data/\nmlruns\n*.lock\n!dvc.lock\n")
    make(tmp_path / "mine")


def test_users_own_excludes_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "excludes").write_text("*.lock\n")
    for name, value in {"COUNT": "1", "KEY_0": "core.excludesFile", "VALUE_0": str(tmp_path / "excludes")}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    with pytest.raises(CoevolveError, match=r"git ignores dvc.lock: line 1 of .*excludes"):
        make(tmp_path / "mine")


def test_failure_of_dvc_is_told_in_its_words_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry in /etc/passwd."""
    lost = (
        "import pwd\n\ndef lost(uid):\n    raise KeyError(f'getpwuid(): uid not found: {uid}')\n\npwd.getpwuid = lost\n"
    )
    write(tmp_path / "site", {"sitecustomize.py": lost})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CoevolveError, match=r"^dvc init: 'getpwuid.*; this user has no name here: set USER"):
        make(tmp_path / "mine")


def test_empty_folder_becomes_a_project_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before = tmp_path.stat().st_ino
    make(Path("."))
    assert (tmp_path / "dvc.yaml").is_file() and tmp_path.stat().st_ino == before
    assert "  cd" not in capsys.readouterr().out
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir()
    make(Path("link"))
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real/dvc.yaml").is_file()


def test_folder_in_a_file_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError) as caught:
        make(tmp_path / "file/mine")
    assert caught.value.filename == str(tmp_path / "file")


def test_git_keeps_all_bytes_and_ignores_what_dvc_and_trackers_write(tmp_path: Path) -> None:
    project = make(tmp_path / "mine")

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=project, capture_output=True, text=True).stdout

    assert "params.yaml: text: unset" in git("check-attr", "text", "params.yaml")
    written = ["policies/base/model.safetensors", "policies/0/config.json", "data/code/x", "mlruns/mlflow.db"]
    assert git("check-ignore", *written).split() == written


def test_folder_that_is_not_empty_stays_unchanged(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(CoevolveError, match="is not empty"):
        make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_missing_git_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CoevolveError, match="git is not installed"):
        make(tmp_path / "mine")


def test_project_inside_a_repository_joins_that_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    project = make(tmp_path / "mine")
    assert (project / ".dvc").is_dir() and not (project / ".git").exists()
    status = subprocess.run(["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, text=True)
    assert status.stdout == "?? mine/\n", "nothing is staged, least of all in a folder that is gone"


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (
            "dvc.yaml",
            "stage validate ${item.t}",
            "stage validated ${item.t}",
            "dvc.yaml: stage validate 0: validate 0 is missing",
        ),
        ("dvc.yaml", "        - data/code/verify.json\n", "", "stage verify 0: data/code/verify.json is missing"),
    ],
)
def test_project_of_an_older_version_is_a_one_line_error(
    file: str, old: str, new: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make(tmp_path / "mine")
    monkeypatch.chdir(project)
    code = parser(["stage"]).parse_args(["stage", "code"])
    text = (project / file).read_text()
    assert stage.run(code) is None and text.count(old) >= 1
    shutil.rmtree(project / "data")
    (project / file).write_text(text.replace(old, new, 1))
    with pytest.raises(CoevolveError) as caught:
        stage.run(code)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert not (project / "data").exists()


def test_users_stages_and_dependencies_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make(tmp_path / "mine")
    monkeypatch.chdir(project)
    text = (project / "dvc.yaml").read_text()
    text = text.replace("stages:\n", "stages:\n  mine:\n    cmd: 'true'\n", 1)
    text = text.replace("- data/code/tasks.json\n", "- data/code/tasks.json\n      - mine.csv\n", 1)
    (project / "dvc.yaml").write_text(text)
    assert stage.run(parser(["stage"]).parse_args(["stage", "code"])) is None


def test_parameters_fit_an_environment_and_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing needs to be edited: lamps are switched in one call, and the tiny policy's prompts are short."""
    mine = f"{ROOT}/examples/mine/mine.py:Mine"
    project = make(tmp_path / "fitting", "--environment", mine, "--model", str(POLICY))
    params = load_yaml(project / "params.yaml", "")
    policy, train = params["policy"], params["train"]
    assert (policy["max_turns"], policy["dtype"], train["group_size"], params["grpo"]["beta"]) == (3, "float32", 8, 0.0)
    assert policy["episode_tokens"] < 768 and policy["episode_tokens"] % 64 == 0
    assert params["evaluate"]["tasks"] <= 40 and params["warm"]["until"] == 0.35 and train["lora"]["enabled"]
    told = capsys.readouterr().out
    assert "an iteration takes about" in told and "has an interval of ±" in told


CONFIG = json.loads((POLICY / "config.json").read_text())
MORE_LAYERS = json.dumps({**CONFIG, "num_hidden_layers": CONFIG["num_hidden_layers"] + 1, "layer_types": None})
TEMPLATE = (POLICY / "chat_template.jinja").read_text()
ALIKE = """
    def questions(self, split):
        for number in range(6):
            yield f"switch the lamp of the hall, {split} {number}", {"lit": []}, [ToolCall("switch", {"room": "hall"})]
"""
EMPTY = """
    def questions(self, split):
        for room in ROOMS[:4] if split == "seed" else ():
            yield f"light the {room}", {"lit": []}, [ToolCall("switch", {"room": room})]
"""


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("model/chat_template.jinja", "{% for message in messages %}{{ message.content }}{% endfor %}", "cannot show tools"),
        ("model/chat_template.jinja", "{{ raise_exception('no') if tools }}", "refuses a conversation: no; set a variable"),
        ("model/chat_template.jinja", TEMPLATE.replace("<|end|>", "<|stop|>"), "the tokenizer's end token is"),
        ("model/config.json", "{", "expected a transformers model directory"),
        ("model/config.json", MORE_LAYERS, "its files lack"),
        ("model/model.safetensors", "cut", "bring its files back"),
        ("mine.py", ALIKE, "the references of all 6 tasks of seed are the same calls"),
        ("mine.py", EMPTY, "each panel needs tasks to measure a policy by; its panels are: validation, test"),
    ],
)  # fmt: skip
def test_a_model_or_tasks_that_no_run_can_use_are_refused_before_the_project_is_made(
    file: str, text: str, words: str, tmp_path: Path
) -> None:
    shutil.copytree(POLICY, tmp_path / "model")
    shutil.copyfile(ROOT / "examples/mine/mine.py", tmp_path / "mine.py")
    before = (tmp_path / file).read_text().partition("\n    def questions")[0] if file == "mine.py" else ""
    (tmp_path / file).write_text(before + text)
    with pytest.raises(CoevolveError) as caught:
        make(tmp_path / "fitting", "--environment", f"{tmp_path}/mine.py:Mine", "--model", str(tmp_path / "model"))
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "fitting").exists()


def test_a_model_on_the_hub_is_fitted_too_and_an_unknown_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, commit = f"{ROOT}/examples/mine/mine.py:Mine", "c" * 40
    cached = tmp_path / "cache/models--acme--tiny"
    shutil.copytree(POLICY, cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with pytest.raises(CoevolveError, match="acme/other is not in the local cache"):
        make(tmp_path / "fitting", "--environment", mine, "--model", "acme/other")
    assert not (tmp_path / "fitting").exists()
    params = load_yaml(make(tmp_path / "fitting", "--environment", mine, "--model", "acme/tiny") / "params.yaml", "")
    assert params["base"]["model"] == "acme/tiny" and params["warm"]["until"] == 0.35


def test_a_model_is_fitted_to_the_example_environment_too(tmp_path: Path) -> None:
    params = load_yaml(make(tmp_path / "example", "--model", str(POLICY)) / "params.yaml", "")
    assert (params["environment"], params["warm"]["until"], params["grpo"]["beta"]) == ("miniworld", 0.35, 0.0)
