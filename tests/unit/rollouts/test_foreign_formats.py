"""ATIF, Harbor, rLLM, SkyRL, NeMo Gym and TRL: each trap of these formats, in files that the writers' own code made.

The conversations are invented. Harbor 0.26.0, TRL 1.16.0, nemo-gym 0.4.0 and sources of rLLM and SkyRL of August 2026
wrote the files in `made`.
"""

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coevolve.core.trajectories import StopReason, Trajectory, write_trajectories
from coevolve.rollouts.atif import HARNESS, LOST, MISSING, SUBAGENTS
from coevolve.rollouts.foreign_trajectories import (
    FAILED,
    NO_SCORE,
    UNNAMED,
    UNSCORED,
    RolloutAccount,
    named_or_opening,
    trajectories,
)
from coevolve.rollouts.harbor_trials import CHANGED, REGRADED, UNRECORDED
from coevolve.rollouts.rllm_episodes import CONTEXTS, OTHERS, VALIDATION
from coevolve.rollouts.rollout_formats import FORMATS, read_rollouts, rollout_files
from coevolve.rollouts.rollout_row import Options
from coevolve.rollouts.text_dumps import EVALUATIONS
from tests.unit.rollouts.test_real_files import MADE

Change = Callable[[Any], object]


class Read:
    """What the readers return for ``source``, with rollouts that have no score."""

    def __init__(self, source: Path, reward: str | None = None) -> None:
        self.account, self.options = RolloutAccount(), Options(reward)
        rows = read_rollouts(rollout_files(source), self.options)
        self.found = list(trajectories(rows, named_or_opening, self.account, unscored=True))

    def by_task(self) -> dict[str, list[Trajectory]]:
        names = sorted({one.task_id for one in self.found})
        return {name: [one for one in self.found if one.task_id == name] for name in names}


def calls(trajectory: Trajectory) -> list[tuple[str, bool, str]]:
    return [(call.name, call.ok, call.observation) for call in trajectory.calls]


def atif(name: str) -> Trajectory:
    [found] = Read(MADE / "atif" / name).found
    return found


def changed(folder: Path, name: str, change: Change) -> Path:
    """A copy of a sample of ``made`` with a change of its JSON."""
    value = json.loads((MADE / name).read_text())
    change(value)
    file = folder / Path(name).name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value, indent=2))
    return file


@pytest.mark.parametrize("folder", ["atif", "harbor-job", "rllm", "skyrl", "nemo-gym", "trl_async"])
def test_folder_is_read_by_its_content(folder: str) -> None:
    read = Read(MADE / folder, reward="solved" if folder == "trl_async" else None)
    assert set(read.options.formats) == {{"harbor-job": "harbor", "trl_async": "trl"}.get(folder, folder)}
    assert read.found and all(len(skipped["reason"]) < 200 for skipped in read.account.skipped)


# ATIF


def test_atif_without_a_score_is_left_out_where_scores_are_needed() -> None:
    """Signals keep such rollouts for their calls. `import` and `grow` do not."""
    account = RolloutAccount()
    rows = read_rollouts([MADE / "atif/plain.json"], Options())
    assert list(trajectories(rows, named_or_opening, account)) == []
    assert account.skipped == [{"where": "plain.json", "reason": NO_SCORE}]
    [scored] = trajectories(read_rollouts([MADE / "atif/plain.json"], Options()), named_or_opening, account, score=1.0)
    assert scored.score == 1.0 and scored.counts and atif("plain.json").failure == UNSCORED


def test_atif_answers_match_by_id_in_any_order() -> None:
    found = calls(atif("parallel-calls.json"))
    assert [name for name, _, _ in found] == ["Read", "Read", "Read", "Edit", "Bash"]
    assert [ok for _, ok, _ in found] == [True, True, False, True, True], "an exit code of 3 is no refusal"
    assert "a - b" in found[0][2] and "does not exist" in found[2][2]


def test_atif_flags_of_refusals_are_read() -> None:
    found = calls(atif("failed-call.json"))
    assert [ok for _, ok, _ in found] == [False, True], "a refusal in plain words has the status success"


def test_atif_answers_without_ids_match_by_position() -> None:
    found = calls(atif("no-tool-definitions.json"))
    assert [(ok, "app.py" in text, "/app" in text) for _, ok, text in found[:2]] == [
        (True, True, False),
        (True, False, True),
    ]
    assert found[2][1], "a return code of 1 is no refusal"
    assert found[3] == ("bash", False, ""), "no answer"


def test_atif_continuation_is_one_rollout() -> None:
    read = Read(MADE / "atif/continuation")
    [found] = read.found
    assert [call.name for call in found.calls] == [*["bash_command"] * 4, "mark_task_complete"]
    assert found.calls[0].observation == found.calls[1].observation != "", "one answer for two calls is of both"
    assert [message["role"] for message in found.messages].count("user") == 1, "copied steps are not read"
    alone = Read(MADE / "atif/continuation/trajectory.cont-1.json")
    assert [one["reason"] for one in alone.account.skipped] == [
        "a continuation, which is no rollout without its first part"
    ]


@pytest.mark.parametrize("name", ["trajectory.json", "gone.json", "../secret.json"])
def test_atif_continuation_without_an_end_or_elsewhere_is_not_followed(tmp_path: Path, name: str) -> None:
    shutil.copy(MADE / "atif/continuation/trajectory.cont-1.json", tmp_path / "secret.json")
    read = Read(
        changed(
            tmp_path / "in",
            "atif/continuation/trajectory.json",
            lambda value: value.update(continued_trajectory_ref=name),
        )
    )
    assert len(read.found[0].calls) == 3 and read.options.remarks == {MISSING: 1}


def test_atif_sub_agents_are_left_out() -> None:
    read = Read(MADE / "atif/subagent-sidechain.json")
    [found] = read.found
    assert [call.name for call in found.calls] == ["Task"] and read.options.remarks == {SUBAGENTS: 1}
    assert [message["role"] for message in found.messages].count("user") == 1
    embedded = Read(MADE / "atif/subagents-embedded.json")
    assert calls(embedded.found[0]) == [("delegate", True, "app.py:1"), ("delegate", True, "")]
    assert embedded.options.remarks == {SUBAGENTS: 1, HARNESS: 1}, "llm_call_count 0 is the harness"


def test_atif_lost_text_is_an_answer_but_no_accepted_call() -> None:
    found = calls(atif("content-parts/trajectory.json"))
    assert found == [("read_file", True, "Binary content provided (1 item)."), ("read_file", False, LOST)]


def test_atif_calls_in_text_have_their_answers() -> None:
    found = calls(atif("calls-in-text-v1.6.json"))
    assert found == [("get_weather", True, '{"temp": 21}'), ("get_weather", False, '{"error": "unknown city"}')]


def test_atif_two_answers_of_one_call_and_repeated_ids() -> None:
    found = calls(atif("audio-and-system-v1.8.json"))
    assert found == [
        ("transcribe", True, "Hello, \nplease cancel order 100."),
        ("cancel", True, "order 100 is cancelled\na mail was sent"),
    ]


def test_atif_without_calls_is_an_episode() -> None:
    found = atif("refusal.json")
    assert not found.calls and found.messages[-1]["content"] == "I can't help with that."


def test_atif_later_requests_are_turns_of_one_task() -> None:
    found = atif("second-request.json")
    assert [call.turn for call in found.calls] == [1, 1, 2]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda value: value.update(steps=[]), "steps: expected a list of steps"),
        (lambda value: value["steps"][0].update(source="robot"), "source: expected system, user or agent"),
        (lambda value: value["steps"][1].update(tool_calls=[5]), "tool_calls: expected a list of calls"),
    ],
)
def test_atif_that_breaks_its_schema_is_left_out_in_one_line(tmp_path: Path, change: Change, reason: str) -> None:
    read = Read(changed(tmp_path, "atif/plain.json", change))
    [skipped] = read.account.skipped
    assert not read.found and skipped["reason"].startswith(reason)


def test_atif_with_unknown_keys_and_on_one_line_is_read(tmp_path: Path) -> None:
    value = json.loads((MADE / "atif/plain.json").read_text())
    (tmp_path / "runs.jsonl").write_text(f"{json.dumps({**value, 'new': 1})}\n{json.dumps(value)}\n")
    read = Read(tmp_path / "runs.jsonl")
    assert [calls(one) for one in read.found] == [calls(atif("plain.json"))] * 2


def test_truncated_atif_is_one_line(tmp_path: Path) -> None:
    text = (MADE / "atif/plain.json").read_text()
    (tmp_path / "a.json").write_text(text[: len(text) // 2])
    shutil.copy(MADE / "atif/plain.json", tmp_path / "b.json")
    read = Read(tmp_path)
    [skipped] = read.account.skipped
    assert len(read.found) == 1 and skipped["where"] == "a.json" and skipped["reason"].startswith("not JSON (")


# Harbor


def test_harbor_job_gives_each_trial_its_task_and_reward() -> None:
    read = Read(MADE / "harbor-job")
    tasks = read.by_task()
    assert [one.score for one in tasks["demo/write-file"]] == [1.0, 1.0]
    assert (tasks["demo/two-steps/count"][0].score, tasks["demo/two-steps/double"][0].score) == (1.0, 0.0)
    assert "demo/two-steps" not in tasks, "the reward of the whole is a mean"
    [slow] = tasks["demo/too-slow"]
    assert slow.stop_reason is StopReason.TIMEOUT and slow.score == 0.0 and slow.counts
    assert calls(slow)[-1][1:] == (False, ""), "the last call has no answer"
    [gone], [unrewarded] = tasks["demo/server-gone"], tasks["demo/no-reward"]
    assert not gone.counts and gone.failure.startswith("RuntimeError"), "a reward of 0 that says nothing"
    assert not unrewarded.counts and read.account.notes[FAILED][0] == 2
    assert read.account.reasons == {
        "2 rewards; name one with --reward": (1, "two-rewards__D2Aopt9/result.json: correct, style")
    }
    assert set(read.account.agents) == {"demo-agent example/small-model"}


def test_harbor_reward_is_chosen_by_name() -> None:
    read = Read(MADE / "harbor-job", reward="style")
    assert read.by_task()["demo/two-rewards"][0].score == 0.5 and not read.account.skipped
    assert read.by_task()["demo/write-file"][0].score == 1.0, "where there is one reward, it is the score"


@pytest.mark.parametrize("name", ["", "result.json", "*/agent/trajectory.json", "**/*.json"])
def test_harbor_trial_counts_once_by_any_of_its_files(name: str) -> None:
    source = MADE / "harbor-job" / name
    assert (
        len({one.trajectory_id for one in Read(source).found}) == len(Read(source).found) >= 6 - name.count("*/agent")
    )


def test_harbor_agents_of_one_trial_bring_its_reward() -> None:
    [found] = Read(MADE / "harbor-job/write-file__fx7EMg8/agent/trajectory.json").found
    assert (found.task_id, found.trajectory_id, found.score) == ("demo/write-file", "write-file__fx7EMg8", 1.0)
    steps = Read(MADE / "harbor-job/two-steps__6Nn9zdV/steps/count/agent/trajectory.json").found
    assert [one.trajectory_id for one in steps] == ["two-steps__6Nn9zdV/count", "two-steps__6Nn9zdV/double"]


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    shutil.copytree(MADE / "harbor-job/write-file__fx7EMg8", tmp_path / "job/write-file__fx7EMg8")
    return tmp_path / "job/write-file__fx7EMg8"


def revised(trial: Path, **values: Any) -> Read:
    result = trial / "result.json"
    result.write_text(json.dumps({**json.loads(result.read_text()), **values}))
    return Read(trial.parent)


@pytest.mark.parametrize(
    ("values", "stop", "counts"),
    [
        ({"exception_info": {"exception_type": "NonZeroAgentExitCodeError"}}, StopReason.DONE, True),
        ({"exception_info": {"exception_type": "ContextWindowExceededError"}}, StopReason.MAX_TOKENS, True),
        ({"exception_info": {"exception_type": "ContextLengthExceededError"}}, StopReason.MAX_TOKENS, True),
        ({"exception_info": {"exception_type": "AgentSafetyRefusalError"}}, StopReason.REFUSED, True),
        ({"exception_info": {"exception_type": "DaytonaError"}}, StopReason.ENVIRONMENT_FAILED, False),
        ({"reward_valid": False}, StopReason.ENVIRONMENT_FAILED, False),
        ({"verifier_result": {"rewards": None}}, StopReason.ENVIRONMENT_FAILED, False),
        ({"verifier_result": None}, StopReason.ENVIRONMENT_FAILED, False),
    ],
)
def test_harbor_end_of_a_trial(trial: Path, values: dict[str, Any], stop: StopReason, counts: bool) -> None:
    [found] = revised(trial, **values).found
    assert (found.stop_reason, found.counts) == (stop, counts)


def test_harbor_files_of_january_lack_keys(trial: Path) -> None:
    value = json.loads((trial / "result.json").read_text())
    for key in ("schema_version", "reward_valid", "step_results", "exception_info"):
        del value[key]
    (trial / "result.json").write_text(json.dumps(value))
    assert [one.score for one in Read(trial.parent).found] == [1.0]


def test_harbor_other_checksum_is_another_task(trial: Path) -> None:
    shutil.copytree(trial, trial.parent / "write-file__zz")
    read = revised(trial.parent / "write-file__zz", task_checksum="0123456789")
    assert sorted(one.task_id for one in read.found) == ["demo/write-file", "demo/write-file@01234567"]
    assert read.options.remarks == {CHANGED: 1}


def test_harbor_regrade_is_left_out_and_trial_without_a_trajectory_keeps_its_reward(trial: Path) -> None:
    (trial / "agent/trajectory.json").rename(trial / "agent/gemini-cli.trajectory.json")
    read = Read(trial.parent)
    assert [(one.score, one.calls) for one in read.found] == [(1.0, [])] and read.options.remarks == {UNRECORDED: 1}
    assert revised(trial, config={"source_trial": "x"}).options.remarks == {REGRADED: 1}


def test_harbor_running_trial_has_no_result(trial: Path) -> None:
    (trial / "result.json").unlink()
    [found] = Read(trial.parent).found
    assert found.failure == UNSCORED and found.calls


@pytest.mark.parametrize("name", ["../../x", 5])
def test_harbor_step_with_a_path_for_a_name_is_left_out(trial: Path, name: Any) -> None:
    read = revised(trial, step_results=[{"step_name": name}])
    assert [one["reason"] for one in read.account.skipped] == ["step_results: expected the names of steps"]


# rLLM


def test_rllm_episodes_have_step_and_task() -> None:
    read = Read(MADE / "rllm")
    cancel = read.by_task()["6a851524"]
    assert [(one.step, one.score) for one in cancel] == [(1, 1.0), (1, 0.0), (2, 1.0), (2, 0.0)]
    assert calls(cancel[1]) == [("list_orders", True, '["100"]'), ("cancel", False, "Error: no order 999")]
    assert [message["role"] for message in cancel[0].messages].count("user") == 1, "each step repeats the chat"
    assert read.options.remarks == {VALIDATION: 1, OTHERS: 1}
    assert {"shop-0", "shop-1"} <= set(read.by_task()), "an evaluation has the task's own id"
    [failed] = read.by_task()["1aa90421"]
    assert failed.failure == "connection reset" and calls(failed) == [("list_orders", True, '["118"]')]


def rllm(folder: Path, change: Change) -> Read:
    name = next((MADE / "rllm/episodes/train_step_1_epoch_0").glob("episode_*_0.json")).relative_to(MADE)
    return Read(changed(folder, str(name), change))


def test_rllm_contexts_that_do_not_continue_each_other_are_joined(tmp_path: Path) -> None:
    def part(value: dict[str, Any]) -> None:
        steps = value["trajectories"][0]["steps"]
        steps[-1]["chat_completions"] = [
            {"role": "user", "content": "now say it"},
            {"role": "assistant", "content": "done"},
        ]

    read = rllm(tmp_path, part)
    assert [call.name for call in read.found[0].calls] == ["list_orders", "cancel"] and read.options.remarks == {
        CONTEXTS: 1
    }


@pytest.mark.parametrize(
    ("change", "score", "stop"),
    [
        (lambda value: value["trajectories"][0].update(reward=None), 1.0, StopReason.DONE),
        (lambda value: value.update(termination_reason="max_turns_exceeded"), 1.0, StopReason.MAX_TURNS),
        (lambda value: value.update(termination_reason="max_response_length_exceeded"), 1.0, StopReason.MAX_TOKENS),
        (lambda value: value.update(termination_reason="timeout"), 1.0, StopReason.TIMEOUT),
        (lambda value: value["trajectories"].append(copy.deepcopy(value["trajectories"][0])), 1.0, StopReason.DONE),
    ],
)
def test_rllm_scores_and_ends(tmp_path: Path, change: Change, score: float, stop: StopReason) -> None:
    found = rllm(tmp_path, change).found
    assert {(one.score, one.stop_reason) for one in found} == {(score, stop)}


# SkyRL


def test_skyrl_dumps_are_evaluations_of_their_step() -> None:
    read = Read(MADE / "skyrl")
    assert {one.step for one in read.found} == {10, 20} and read.options.remarks == {EVALUATIONS: len(read.found)}
    tasks = read.by_task()
    assert set(tasks) >= {"shop/cancel/0", "shop/cancel/1", "unknown/2"}
    assert {one.score for one in tasks["shop/cancel/0"]} == {0.0, 1.0}, "a number for each token is summed"
    assert {one.stop_reason for one in tasks["unknown/2"]} == {StopReason.MAX_TOKENS}
    assert calls(tasks["unknown/2"][0])[1] == ("cancel", False, "Error: no order 999")


# NeMo Gym


def test_nemo_gym_rows_are_read() -> None:
    read = Read(MADE / "nemo-gym")
    assert {name: [one.score for one in found] for name, found in read.by_task().items()} == {
        "0": [1.0, 0.0], "1": [1.0, 0.0], "shop-106": [0.0, 0.5]
    }  # fmt: skip
    first, refusal = read.by_task()["0"]
    assert calls(first) == [("list_orders", True, '["100"]'), ("cancel", True, "order 100 is cancelled")]
    assert calls(refusal)[-1][1] is False and not read.account.skipped, "the other files hold no rollouts"
    assert all(message["role"] == "system" for message in [one.messages[0] for one in read.found]), (
        "developer is system"
    )


def nemo(folder: Path, change: Change) -> Read:
    value = json.loads((MADE / "nemo-gym/rollouts.jsonl").read_text().splitlines()[0])
    change(value)
    (folder / "rows.jsonl").write_text(json.dumps(value) + "\n")
    return Read(folder / "rows.jsonl")


def call(name: str, key: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": key, "name": name, "arguments": "{}"}


def told(key: str, output: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": key, "output": output}


def test_nemo_gym_answers_match_by_id_and_may_be_results_of_mcp(tmp_path: Path) -> None:
    failed = json.dumps({"result": {"isError": True, "content": [{"type": "text", "text": "no"}]}})
    items = [call("a", "1"), call("b", "2"), told("2", failed), told("1", [{"type": "input_text", "text": "yes"}])]
    items.append({"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "I stop"}]})
    [found] = nemo(tmp_path, lambda value: value["response"].update(output=items)).found
    assert calls(found) == [("a", True, "yes"), ("b", False, "no")] and found.messages[-1]["content"] == "I stop"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda value: value["response"].update(error={"code": "x"}), (StopReason.ENVIRONMENT_FAILED, 0.0)),
        (lambda value: value.update(_ng_failure_class="model_server_error"), (StopReason.ENVIRONMENT_FAILED, 0.0)),
        (lambda value: value["response"].update(incomplete_details={"reason": "x"}), (StopReason.MAX_TOKENS, 1.0)),
        (lambda value: value["responses_create_params"].update(input="hi", instructions="act"), (StopReason.DONE, 1.0)),
    ],
)
def test_nemo_gym_ends(tmp_path: Path, change: Change, expected: tuple[StopReason, float]) -> None:
    [found] = nemo(tmp_path, change).found
    assert (found.stop_reason, found.score if found.counts else 0.0) == expected


def test_nemo_gym_row_without_keys_of_the_collector_has_no_task_id(tmp_path: Path) -> None:
    read = nemo(tmp_path, lambda value: [value.pop(key) for key in list(value) if key.startswith("_ng_")])
    assert read.account.notes[UNNAMED][0] == 1


# TRL


def test_trl_answers_of_async_tools_match_by_name() -> None:
    """TRL writes them after all others, and without ids: read_ticket's answer stands last."""
    read = Read(MADE / "trl_async", reward="solved")
    parallel = [one for one in read.found if [call.name for call in one.calls[1:]][:1] == ["read_ticket"]]
    assert parallel
    for one in parallel:
        said = {call.name: call.observation for call in one.calls[1:]}
        assert said["read_ticket"].startswith(("ticket", "{'error'")) and said["close_ticket"].startswith("closed")


def test_trl_rows_with_the_same_prompt_are_said_to_be_alike() -> None:
    read = Read(MADE / "trl_same_prompts")
    assert len(read.account.unnamed) == 10 < 16 and read.account.notes[UNNAMED][0] == 64


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_what_it_lacks(name: str) -> None:
    rows = FORMATS[name]
    assert rows.name == name and rows.lacks and (rows.read or rows.table)


@pytest.mark.parametrize(
    "values", [{"task_id": "\ud800"}, {"trajectory_id": "a\ud800"}, {"iteration": 2**63}, {"step": -(2**40)}]
)
def test_ids_and_numbers_that_tables_cannot_hold_are_changed_or_left_out(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    row = {"task_id": "a", "step": 1, "score": 1.0}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps({**row, **values})}\n{json.dumps(row)}\n")
    read = Read(tmp_path)
    assert len(read.found) + len(read.account.skipped) == 2
    write_trajectories(tmp_path / "stored.parquet", read.found)
