"""The files of a source, their rows and their tasks. What cannot be read gives one line, never a traceback."""

import copy
import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.errors import CoevolveError
from coevolve.core.task import CallOutcome
from coevolve.core.trajectories import Trajectory, read_trajectories, write_trajectories
from coevolve.rollouts.foreign_trajectories import NO_SCORE, RolloutAccount, named_or_opening, trajectories
from coevolve.rollouts.match_tasks import SEVERAL, UNKNOWN, TaskMatch
from coevolve.rollouts.rollout_formats import read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options, RolloutRow
from tests.unit.commands.test_import import VALUES, places
from tests.unit.rollouts.test_chats import CHAT
from tests.unit.rollouts.test_real_files import KNOWN, MADE, played

TRACE = json.loads(gzip.decompress((MADE / "traces.jsonl.gz").read_bytes()).splitlines()[0])
DUMP = json.loads((MADE / "verl/1.jsonl").read_text().splitlines()[0])
LINES = {"verifiers": TRACE, "verl": DUMP, "coevolve": {**CHAT, "step": 1}}
FOREIGN = {
    "atif": json.loads((MADE / "atif/parallel-calls.json").read_text()),
    "harbor": json.loads((MADE / "harbor-job/two-steps__6Nn9zdV/result.json").read_text()),
    "rllm": json.loads(next((MADE / "rllm/episodes").glob("*/episode_*")).read_text()),
    "skyrl": json.loads((MADE / "skyrl/dumped_evals/global_step_20_evals/unknown.jsonl").read_text()),
    "nemo-gym": json.loads((MADE / "nemo-gym/rollouts.jsonl").read_text().splitlines()[0]),
    "episodes": {"task_id": "a", "step": 1, "score": 0.5, "iteration": 1, "calls": [{"name": "x", "ok": True}]},
}


def read(file: Path, name: str, reward: str | None = None) -> tuple[list[Trajectory], RolloutAccount]:
    account = RolloutAccount()
    rows = read_rollouts(rollout_files(file, name), Options(reward), name)
    return list(trajectories(rows, named_or_opening, account)), account


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rollouts")


@pytest.mark.parametrize("name", FOREIGN)
@given(data=st.data())
def test_any_value_in_a_foreign_object_gives_rollouts_or_a_reason(folder: Path, name: str, data: st.DataObject) -> None:
    row = copy.deepcopy(FOREIGN[name])
    for _ in range(data.draw(st.integers(1, 2))):
        container, key = data.draw(st.sampled_from(places(row)))
        container[key] = data.draw(VALUES)
    file = folder / f"{name}.jsonl"
    file.write_text(f"{json.dumps(FOREIGN[name])}\n{json.dumps(row)}\n{json.dumps(FOREIGN[name])}\n", encoding="utf-8")
    account = RolloutAccount()
    rows = read_rollouts(rollout_files(file, name), Options(), name)
    found = list(trajectories(rows, named_or_opening, account, unscored=True))
    assert len(found) + len(account.skipped) >= 2 and [one.calls for one in found[:1]] == [
        one.calls for one in found[-1:]
    ]
    assert all(skipped["where"].startswith(f"{name}.jsonl:2") for skipped in account.skipped)
    write_trajectories(folder / "stored.parquet", found)
    assert len(read_trajectories(folder / "stored.parquet")) == len(found)


@pytest.mark.parametrize("name", LINES)
@given(data=st.data())
def test_any_value_in_a_line_gives_a_rollout_or_a_reason(folder: Path, name: str, data: st.DataObject) -> None:
    """The lines before and after it are still read, and every rollout that is read can be stored."""
    row = copy.deepcopy(LINES[name])
    for _ in range(data.draw(st.integers(1, 2))):
        container, key = data.draw(st.sampled_from(places(row)))
        container[key] = data.draw(VALUES)
    good = json.dumps(LINES[name])
    file = folder / f"{name}.jsonl"
    last = good.replace(TRACE["traces"][0]["id"], "another")
    file.write_text(f"{good}\n{json.dumps(row)}\n{last}\n", encoding="utf-8")
    found, account = read(file, name)
    assert len(found) + len(account.skipped) >= 2 and found[0].calls == found[-1].calls
    assert all(skipped["where"].startswith(f"{name}.jsonl:2") for skipped in account.skipped)
    write_trajectories(folder / "stored.parquet", found)
    assert len(read_trajectories(folder / "stored.parquet")) == len(found)


def test_similar_reasons_are_counted_together(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join([json.dumps(DUMP), "{", '{"a', "[1"]))
    _, account = read(file, "verl")
    assert account.lines({})[0].startswith("3 left out: not JSON (first: rows.jsonl:2: Expecting")


def row(text: str = "", names: tuple[str, ...] = (), prompt: str | None = None) -> RolloutRow:
    return RolloutRow("here:1", [{"role": "user", "content": text}], 1.0, names, prompt=prompt)


def test_task_is_matched_by_id_or_by_a_unique_first_request() -> None:
    twin = replace(KNOWN[0], task_id="twin")
    match, first = TaskMatch([*KNOWN, twin]), KNOWN[1].turns[0]
    assert match(row("anything", ("nonsense", KNOWN[2].task_id))) == KNOWN[2].task_id
    assert match(row(f" {first}\n")) == KNOWN[1].task_id
    for text, reason in ((f"{first} please", UNKNOWN), (KNOWN[0].turns[0], SEVERAL)):
        with pytest.raises(CoevolveError, match=f"no task id, and {reason}"):
            match(row(text))
    assert match(row(KNOWN[0].turns[0], ("twin",))) == "twin"


@pytest.mark.parametrize(
    ("prompt", "known"),
    [
        ("{}", True),
        ("system\nbe good\nuser\n{}\nassistant\n", True),
        ("user\n\n{}assistant\n\n", True),  # Llama 3's template, decoded without special tokens
        ("user\n{}\nassistant\n<think>\n\n</think>\n\n", True),
        ("user\n{}\nassistant\n<think>\n", True),  # Qwen3-Thinking's and DeepSeek-R1's templates begin the thought
        ("user\nbe good\n\n{}\nmodel\n", True),  # Gemma's template has no system's turn
        ("user\nnot: {}\nassistant\n", False),
        ("user\n{}\nassistant\nhi\nuser\nsomething else\nassistant\n", False),
        ("", False),
    ],
)
def test_decoded_prompt_must_end_with_the_whole_request(prompt: str, known: bool) -> None:
    text = prompt.replace("{}", KNOWN[1].turns[0])
    found = row(text, prompt=text)
    if known:
        assert TaskMatch(KNOWN)(found) == KNOWN[1].task_id
    else:
        with pytest.raises(CoevolveError, match=UNKNOWN):
            TaskMatch(KNOWN)(found)


def trl(folder: Path, **columns: list[Any]) -> Path:
    said = [{"role": "user", "content": "hi"}]
    table = {"step": [1, 1], "prompt": [said] * 2, "completion": [[{"role": "assistant", "content": "ok"}]] * 2}
    pq.write_table(pa.table({**table, **columns, "advantage": [0.0, 0.0]}), folder / "completions_00001.parquet")
    return folder


def test_several_trl_rewards_need_a_choice_and_unscored_rows_are_skipped(tmp_path: Path) -> None:
    nan = float("nan")
    for columns in ({"a": [1.0, 1.0], "b": [0.0, 0.0]}, {"a": [1.0, nan], "b": [nan, 0.0]}):
        with pytest.raises(CoevolveError, match="2 columns may be the score: a, b; name one with --reward"):
            read(trl(tmp_path, **columns), "trl")
    found, account = read(trl(tmp_path, a=[1.0, nan], b=[nan, nan]), "trl")
    assert [trajectory.score for trajectory in found] == [1.0]
    assert account.skipped == [{"where": "completions_00001.parquet:2", "reason": NO_SCORE}]


def test_reward_in_a_list_of_one_is_read_and_a_longer_list_is_named(tmp_path: Path) -> None:
    found, account = read(trl(tmp_path, a=[[1.0], [0.5, 0.5]]), "trl")
    assert [trajectory.score for trajectory in found] == [1.0]
    reason = "no reward function scored it as a number; a is a list of 2"
    assert account.skipped == [{"where": "completions_00001.parquet:2", "reason": reason}]
    found, _ = read(trl(tmp_path, a=[0.0, 1.0], ids=[[7], [8]]), "trl")
    assert [trajectory.score for trajectory in found] == [0.0, 1.0], "a list beside a number is no reward"


def test_batch_that_trl_logs_twice_counts_once(tmp_path: Path) -> None:
    """With several updates per generation (num_iterations), TRL logs the same completions after each."""
    for step in (1, 2):
        content = pq.read_table(MADE / "trl/completions_00001.parquet")
        steps = pa.array([step] * len(content))
        pq.write_table(content.set_column(0, "step", steps), tmp_path / f"completions_{step:05d}.parquet")
    _, found, _, options = played(tmp_path)
    assert len(found) == 8 and list(options.remarks.values()) == [8]


def test_thought_opened_by_the_prompt_is_removed_with_its_calls(tmp_path: Path) -> None:
    request, call = KNOWN[0].turns[0], '<tool_call>\n{"name": "pay"}\n</tool_call>'
    value = {**DUMP, "input": f"user\n{request}\nassistant\n<think>\n", "output": f"{call}?</think>\n\ndone"}
    (tmp_path / "1.jsonl").write_text(json.dumps(value))
    _, [found], _, _ = played(tmp_path)
    assert found.messages[0]["content"] == request and not found.calls


def test_branches_and_other_agents_are_noted(tmp_path: Path) -> None:
    value = copy.deepcopy(TRACE)
    judge = copy.deepcopy(value["traces"][0])
    judge["agent"]["trainable"] = False
    nodes = value["traces"][0]["nodes"]
    nodes.append({"parent": 0, "message": {"role": "assistant", "content": "compacted"}})
    value["traces"].append(judge)
    (tmp_path / "traces.jsonl").write_text(json.dumps(value))
    _, [found], _, options = played(tmp_path)
    assert [message["role"] for message in found.messages] == ["user", "assistant"] and not found.calls
    assert sorted(options.remarks.values()) == [1, 1]


@pytest.mark.parametrize(
    ("change", "score", "failure"),
    [
        (lambda trace: trace.update(rewards={"a": {"score": 1, "weight": 0.5}, "b": {"score": 0.2}}), 0.7, ""),
        (lambda trace: trace.update(rewards={"a": None}), 0.0, "no reward was recorded"),
        (
            lambda trace: trace.update(errors=[{"type": "SandboxError"}], stop_condition="sandbox_error"),
            0.0,
            "sandbox_error",
        ),
    ],
)
def test_trace_score_follows_weights_and_failures(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], score: float, failure: str
) -> None:
    value = copy.deepcopy(TRACE)
    change(value["traces"][0])
    (tmp_path / "traces.jsonl").write_text(json.dumps(value))
    _, [found], _, _ = played(tmp_path)
    assert (found.score, found.failure) == (pytest.approx(score), failure)


def test_coevolve_trajectories_are_read_back_unchanged(tmp_path: Path) -> None:
    _, found, _, _ = played(MADE / "verl")
    write_trajectories(tmp_path / "trajectories.parquet", found)
    name, again, _, _ = played(tmp_path)
    assert name == "coevolve" and again == found


def test_folder_without_rollouts_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("{}")
    with pytest.raises(CoevolveError, match=r"holds no rollouts; expected files such as traces\.jsonl \(verifiers and"):
        rollout_files(tmp_path)


@pytest.mark.parametrize(("name", "column"), [("trl", "prompt"), ("coevolve", "messages")])
def test_table_with_other_columns_is_left_out(tmp_path: Path, name: str, column: str) -> None:
    pq.write_table(pa.table({"step": [1], "question": ["x"]}), tmp_path / "completions_1.parquet")
    _, account = read(tmp_path / "completions_1.parquet", name)
    [skipped] = account.skipped
    assert column in skipped["reason"].partition(" (it has step, question)")[0]


def test_files_of_unknown_formats_are_left_out_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"question": 1}')
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    (tmp_path / "y.jsonl").write_text(json.dumps(DUMP))
    found, account = read(tmp_path, "auto")
    assert len(found) == 1 and [one["where"] for one in account.skipped] == ["x.jsonl:1", "x.parquet"]
    reasons = [one["reason"] for one in account.skipped]
    assert reasons[0].endswith("(it holds question)") and reasons[1].startswith("not a Parquet file (")
    with pytest.raises(CoevolveError, match="no such file"):
        rollout_files(tmp_path / "none")


def own(folder: Path, form: str) -> Path:
    """A rollout in one of coevolve's own formats, with the rewards ``score`` and ``style``."""
    file = folder / f"rows.{form}"
    if form == "jsonl":
        file.write_text(json.dumps({**LINES["coevolve"], "score": 0.0, "style": 0.25}))
        return file
    _, found, _, _ = played(MADE / "verl")
    write_trajectories(file, found[:1])
    table = pq.read_table(file)
    pq.write_table(table.append_column("style", pa.array([0.25])), file)
    return file


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_named_reward_is_the_score_of_coevolve_files(tmp_path: Path, form: str) -> None:
    found, _ = read(own(tmp_path, form), "coevolve", reward="style")
    assert [trajectory.score for trajectory in found] == [0.25]


def test_missing_reward_of_coevolve_files_is_named(tmp_path: Path) -> None:
    _, account = read(own(tmp_path, "jsonl"), "coevolve", reward="stile")
    assert account.skipped == [{"where": "rows.jsonl:1", "reason": NO_SCORE}]
    _, account = read(own(tmp_path, "parquet"), "coevolve", reward="stile")
    assert account.skipped[0]["reason"].startswith("no column stile (it has trajectory_id, ")


def call(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": "{}"}}


EXAMPLE = [
    {"role": "user", "content": "an example", "tool_calls": None},
    {"role": "assistant", "content": "", "tool_calls": [call("shown"), call("shown_too")]},
    {"role": "tool", "content": "ok", "tool_calls": None},
    {"role": "assistant", "content": "done", "tool_calls": None},
]


def request(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "tool_calls": None}


def prompted(folder: Path, *texts: str) -> Path:
    """A file whose prompts hold the example and then one of ``texts``. Its agent makes a call in each of two turns."""
    reply = [
        {"role": "assistant", "content": "", "tool_calls": [call("mine")]},
        {"role": "tool", "content": "found", "tool_calls": None},
        request("and now?"),
        {"role": "assistant", "content": "", "tool_calls": [call("later")]},
    ]
    prompts = [[*EXAMPLE, request(text)] for text in texts]
    return trl(folder, prompt=prompts, completion=[reply] * len(texts), reward=[1.0] * len(texts))


def test_calls_in_examples_do_not_count_as_the_agents(tmp_path: Path) -> None:
    found, _ = read(prompted(tmp_path, "x", "y"), "trl")
    assert found[0].calls == [CallOutcome("mine", {}, True, "found", 0), CallOutcome("later", {}, False, "", 1)]
    assert [message["content"] for message in found[0].messages][:1] == ["an example"], "the messages stay whole"


def test_last_request_of_the_prompt_finds_the_known_task(tmp_path: Path) -> None:
    _, found, account, _ = played(prompted(tmp_path, KNOWN[0].turns[0], KNOWN[1].turns[0]))
    assert [trajectory.task_id for trajectory in found] == [KNOWN[0].task_id, KNOWN[1].task_id]
    assert not account.skipped


def test_file_with_two_spellings_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(MADE / "verl", tmp_path / "dumps")
    (tmp_path / "link").symlink_to(tmp_path / "dumps")
    monkeypatch.chdir(tmp_path)
    spellings = ["dumps/2.jsonl", "./dumps/../dumps/2.jsonl", tmp_path / "dumps" / "2.jsonl", "link", "dumps"]
    files = rollout_files(spellings)
    assert files == [Path("dumps/2.jsonl"), Path("link/1.jsonl")]


def test_glob_that_matches_folders_reads_their_rollouts(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(MADE / "verl", tmp_path / "run" / name)
        (tmp_path / "run" / name / "notes.txt").write_text("no rollouts")
    shutil.copy(MADE / "verl/1.jsonl", tmp_path / "run" / "c.jsonl")
    files = rollout_files(str(tmp_path / "run" / "*"))
    names = [file.relative_to(tmp_path / "run").as_posix() for file in files]
    assert names == ["a/1.jsonl", "a/2.jsonl", "b/1.jsonl", "b/2.jsonl", "c.jsonl"]


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_empty_first_file_does_not_hide_the_next(tmp_path: Path, content: str) -> None:
    shutil.copytree(MADE / "verl", tmp_path / "dumps")
    (tmp_path / "dumps" / "0.jsonl").write_text(content)
    name, found, account, _ = played(tmp_path / "dumps")
    assert name == "verl" and len(found) == 12 and not account.skipped
