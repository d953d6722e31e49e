"""The failure agent of a model with another architecture, chat template and adapters: all that a real one has but its size."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from coevolve.core.task import Observation, Task
from coevolve.core.trajectories import Trajectory
from coevolve.environments.miniworld.miniworld_environment import Miniworld
from coevolve.environments.miniworld.session import MiniworldSession
from coevolve.policies import adapted
from coevolve.policies.loading import playing
from coevolve.policies.scripted_policy import ReferencePolicy
from coevolve.policies.transformers_policy import load
from coevolve.rollout import Limits, RolloutRequest, rollout
from coevolve.stages.pairs.choose import choose, contrast
from coevolve.stages.pairs.closeness import failures, ranked
from coevolve.stages.pairs.failure_agent import PairsContext, Rival, learned
from coevolve.stages.pairs.rehearse import Rehearsal, play
from coevolve.stages.train import dpo
from coevolve.stages.train.config import Train
from coevolve.stages.train.learner import Job, Settings
from coevolve.stages.train.reference_tokens import replayed
from tests.unit.policies.qwen import make_qwen3
from tests.unit.stages.train.small import CONFIG, PARAMS, WORLD, outputs

ACTING = PARAMS.policy.model_copy(
    update={"max_turns": 16, "episode_tokens": 8192, "reply_tokens": 40, "template": {"enable_thinking": False}}
)
LIMITS = Limits.of(ACTING)


class NarrowSession(MiniworldSession):
    """Shows two of its tools: of a byte a token, schemas are long."""

    def reset(self, task: Task) -> Observation:
        turn = super().reset(task)
        return replace(turn, tools=(turn.tools or [])[:2])


class Narrow(Miniworld):
    def open(self) -> MiniworldSession:
        made = super().open()
        made.__class__ = NarrowSession
        return made


def config() -> Train:
    lora = CONFIG.lora.model_copy(update={"enabled": True, "rank": 4, "targets": ["q_proj", "v_proj"]})
    return CONFIG.model_copy(
        update={"learner": "dpo", "steps": 2, "tasks_per_step": 2, "group_size": 2, "micro_batch": 1, "lora": lora}
    )


def test_qwen3_learns_to_fail_closely_by_adapters_and_its_hard_negatives_are_learned_from(tmp_path: Path) -> None:
    world, base = Narrow(), make_qwen3(tmp_path / "qwen3", context=8192)
    tasks = [task for task in WORLD.tasks("broad") if len(task.calls) > 4][:4]
    references = replayed(world, tasks, LIMITS)
    # a policy of random weights makes no calls to rank: what fails are references that leave calls out; the rest is real
    requests = [RolloutRequest(task, seed, 0, 0, place, seed) for seed in range(6) for place, task in enumerate(tasks)]
    played = [one.trajectory for one in rollout(ReferencePolicy(world, corruption=0.4), world, requests, LIMITS)]
    episodes = [replace(one, tokens=[1]) for one in played]
    facts = failures(world, tasks, references, episodes)
    ranks = ranked(facts)

    (tmp_path / "scratch").mkdir()
    plan = Rehearsal(0, 0, tasks, [], tmp_path / "scratch")
    settings = Settings(config(), ACTING, PARAMS.launch, PARAMS.learners["dpo"])
    ground = PairsContext(world, plan, LIMITS, partial(playing, config=ACTING, temperature=1.0))
    adapted.start(tmp_path / "failures", on=base)
    small = PARAMS.pairs.failure_agent.model_copy(update={"steps": 2, "batch": 2, "save_steps": 1})
    rival = Rival(tmp_path / "failures", base, small, settings)
    folder, figures = learned(rival, ground, base, contrast(episodes, ranks, PARAMS.pairs, plan), episodes)
    assert len(figures) == 2 and figures[0]["margin"] == 0.0 != figures[1]["margin"]
    assert set(outputs(folder)) == {
        "agent.json", "adapter-0/adapter_config.json", "adapter-0/adapter_model.safetensors"
    }  # fmt: skip

    merged = adapted.opened(folder, tmp_path / "merged", ACTING.dtype)
    before, after = (load(path)[0] for path in (base, merged))
    changed = {
        name.rsplit(".", 2)[1]
        for (name, one), other in zip(after.named_parameters(), before.parameters(), strict=True)
        if not torch.allclose(one, other, atol=1e-9)
    }
    assert changed == {"q_proj", "v_proj"}
    with ground.open(merged) as policy:
        played = play(policy, world, tasks, 4, plan, "hard negatives", LIMITS, lambda count: None)
    assert [one.task_id for one in played] == [task.task_id for task in tasks]

    own, close = ([one for one in episodes if (one.sample < 3) is ours] for ours in (True, False))
    pairs = choose(own, references, ranks, PARAMS.pairs, plan, close)
    assert {one.kind for one in pairs} >= {"expert_target", "expert_hard"}
    job = Job(
        0, 0, base, tasks, tmp_path / "policy", tmp_path / "trajectories.parquet", tmp_path / "metrics.jsonl",
        tmp_path / "training", base, pairs=pairs, rehearsals=rehearsed(own), references=list(references.values()),
        hard=close,
    )  # fmt: skip
    dpo.learn(settings, world, job)
    assert type(load(tmp_path / "policy")[0]).__name__ == "Qwen3ForCausalLM"


def rehearsed(episodes: list[Trajectory]) -> list[Trajectory]:
    """As two steps."""
    return [replace(one, step=place * 2 // len(episodes)) for place, one in enumerate(episodes)]
