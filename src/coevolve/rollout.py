"""The only loop that plays policies in environments: training, evaluation and verification all use it.

Episodes advance together, a turn at a time: the policy replies to all of them in one batch, then their environments
step concurrently. Every episode ends with an explicit reason.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress
from dataclasses import dataclass, field

from coevolve.core.hashing import content_hash
from coevolve.core.params import PolicySection
from coevolve.core.records import StopReason, Trajectory
from coevolve.core.task import CallOutcome, Score, Task
from coevolve.environments.environment import Environment, Session
from coevolve.policies.policy import Conversation, Policy, Reply

MISREAD_LIMIT = 3  # unreadable replies in a row that end an episode


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one episode: the agent's replies, tokens (prompt and observations included), tokens of one reply, seconds."""

    max_turns: int
    episode_tokens: int
    reply_tokens: int
    max_seconds: float

    @staticmethod
    def of(config: PolicySection) -> "Limits":
        return Limits(config.max_turns, config.episode_tokens, config.reply_tokens, config.max_seconds)


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """A task to play once. ``group`` numbers the attempts at one task in one step together, ``sample`` is the attempt."""

    task: Task
    seed: int
    iteration: int = 0
    step: int = 0
    group: int = 0
    sample: int = 0


@dataclass(slots=True)
class Episode:
    """What came of an assignment; ``replies`` hold the sampled tokens, ``seconds`` is wall time."""

    trajectory: Trajectory
    replies: list[Reply]
    seconds: float


def rollout(
    policy: Policy,
    environment: Environment,
    assignments: Sequence[RolloutRequest],
    limits: Limits,
    batch: int = 256,
    workers: int = 32,
    progress: Callable[[int], object] | None = None,
) -> list[Episode]:
    """An episode for each assignment, in order. ``batch`` episodes advance together, ``workers`` step at a time.

    No more episodes run at once than the environment has sessions (its ``capacity``).
    ``progress`` is called with the number of episodes that have just ended. An environment that breaks ends its
    episode with ``ENVIRONMENT_FAILED``: leave those out of statistics, they say nothing about the agent.
    """
    batch = min(batch, environment.capacity or batch)
    episodes: list[Episode] = []
    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="environment")
    try:
        for start in range(0, len(assignments), batch):
            running = [_Running(one, environment, limits) for one in assignments[start : start + batch]]
            _play_batch(policy, running, pool, progress)
            episodes.extend(one.episode() for one in running)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return episodes


def _play_batch(
    policy: Policy, running: Sequence["_Running"], pool: ThreadPoolExecutor, progress: Callable[[int], object] | None
) -> None:
    _concurrently(pool, [(one, one.start) for one in running])
    alive = [one for one in running if one.stop is None]
    if progress and len(alive) < len(running):
        progress(len(running) - len(alive))
    for number, one in enumerate(alive):
        one.conversation.key = number
    policy.begin([one.conversation for one in alive])
    while alive:
        replies = policy.act([one.conversation for one in alive])
        jobs = [(one, _taking(one, reply)) for one, reply in zip(alive, replies, strict=True)]
        _concurrently(pool, jobs)
        left = [one for one in alive if one.stop is None]
        if progress and len(left) < len(alive):
            progress(len(alive) - len(left))
        alive = left


def _taking(one: "_Running", reply: Reply) -> Callable[[], None]:
    return lambda: one.take(reply)


def _concurrently(pool: ThreadPoolExecutor, jobs: Sequence[tuple["_Running", Callable[[], None]]]) -> None:
    """Run the jobs; one that outlasts its episode's wall time is left behind, and the episode has timed out."""
    futures = [(one, pool.submit(job)) for one, job in jobs]
    for one, future in futures:
        try:
            future.result(timeout=max(one.seconds_left(), 0.001))
        except LateError:
            one.abandon()


@dataclass(slots=True)
class _Running:
    """An episode on its way. Its methods never raise: what the environment breaks becomes a stop reason."""

    assignment: RolloutRequest
    environment: Environment
    limits: Limits
    session: Session | None = None
    stop: StopReason | None = None
    score: Score = field(default_factory=lambda: Score(0.0))
    conversation: Conversation = field(init=False)
    calls: list[CallOutcome] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    _misread: int = 0
    _user_turn: int = 0
    _abandoned: bool = False

    def __post_init__(self) -> None:
        task = self.assignment.task
        self.conversation = Conversation(
            0, [], [], task, self.assignment.seed, self.limits.episode_tokens, self.limits.reply_tokens
        )

    def seconds_left(self) -> float:
        return self.began + self.limits.max_seconds - time.monotonic()

    def start(self) -> None:
        try:
            self.session = self.environment.open()
            turn = self.session.reset(self.assignment.task)
        except Exception as error:
            self._broken(error)
            return
        self.conversation.tools = turn.tools or []
        self._hear(turn.role, turn.content)
        if self._abandoned:
            self._close()

    def take(self, reply: Reply) -> None:
        """Carry ``reply`` out."""
        self.replies.append(reply)
        self._hear("assistant", reply.text)
        if reply.prompt_tokens:
            self.conversation.room = self.limits.episode_tokens - reply.prompt_tokens - reply.reply_tokens
        else:
            self.conversation.room -= len(reply.prompt_ids) + len(reply.token_ids)
        try:
            if reply.truncated:
                self._end(StopReason.MAX_TOKENS)
            elif reply.invalid:
                self._hear("tool", f"not readable: {reply.error}")
                self._misread += 1
                if self._misread >= MISREAD_LIMIT:
                    self._end(StopReason.INVALID)
            elif self._carry_out(reply):
                self._end(StopReason.DONE)
            if self.stop is None and len(self.replies) >= self.limits.max_turns:
                self._end(StopReason.MAX_TURNS)
            if self.stop is None and self.seconds_left() <= 0:
                self._end(StopReason.TIMEOUT)
        except Exception as error:
            self._broken(error)
        if self._abandoned:
            self._close()

    def abandon(self) -> None:
        self._abandoned = True
        self.stop, self.ended = StopReason.TIMEOUT, time.monotonic()

    def _carry_out(self, reply: Reply) -> bool:
        """Whether the environment says that the episode is over."""
        assert self.session is not None
        self._misread = 0
        if not reply.calls:
            turn = self.session.say(reply.text)
            if not turn.done:
                self._user_turn += 1
                self._hear(turn.role, turn.content)
                self.conversation.tools = turn.tools if turn.tools is not None else self.conversation.tools
            return turn.done
        self.session.begin_reply()
        for call in reply.calls:
            turn = self.session.step(call)
            if self._abandoned:
                return False
            self.calls.append(CallOutcome(call.name, call.arguments, not turn.error, turn.content, self._user_turn))
            self._hear(turn.role, turn.content)
            if turn.done:
                return True
        return False

    def _hear(self, role: str, content: str) -> None:
        self.conversation.messages.append({"role": role, "content": content})

    def _end(self, reason: StopReason) -> None:
        assert self.session is not None
        if not self._abandoned:
            self.score = self.session.score()
            self._close()
            self.stop, self.ended = reason, time.monotonic()

    def _broken(self, error: Exception) -> None:
        if not self._abandoned:
            self._hear("tool", f"environment failed: {type(error).__name__}: {error}")
            self._close()
            self.stop, self.ended = StopReason.ENVIRONMENT_FAILED, time.monotonic()

    def _close(self) -> None:
        """What goes wrong in closing changes nothing about the episode."""
        session, self.session = self.session, None
        if session is not None:
            with suppress(Exception):
                session.close()

    def episode(self) -> Episode:
        assert self.stop is not None
        one = self.assignment
        place = [one.task.task_id, one.iteration, one.step, one.group, one.sample, one.seed]
        trajectory = Trajectory(
            trajectory_id=content_hash(place),
            task_id=one.task.task_id,
            iteration=one.iteration,
            step=one.step,
            group=one.group,
            sample=one.sample,
            messages=list(self.conversation.messages),
            calls=list(self.calls),
            score=self.score.reward,
            stop_reason=self.stop,
            tokens=[len(reply.token_ids) or reply.reply_tokens for reply in self.replies],
            checks=self.score.checks,
        )
        return Episode(trajectory, list(self.replies), self.ended - self.began)


def scored(episodes: Sequence[Episode]) -> Iterator[Episode]:
    """Those that say something about the agent."""
    return (one for one in episodes if one.trajectory.stop_reason is not StopReason.ENVIRONMENT_FAILED)
