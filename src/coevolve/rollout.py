"""The only loop that plays policies in environments: training, evaluation and verification all use it.

The episodes of a batch advance together, a turn at a time: the policy replies to all of them at once, then their
environments step concurrently. Batches are cut by the requests alone, so that no bit of an episode depends on how many
processes play. Every episode ends with an explicit reason.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress
from dataclasses import dataclass, field

from coevolve.core.calls import misfit, writable
from coevolve.core.concurrency import in_order
from coevolve.core.hashing import content_hash
from coevolve.core.processes import WorkerLost
from coevolve.core.task import CallOutcome, Score, Task
from coevolve.core.trajectories import StopReason, Trajectory
from coevolve.core.workers import Free
from coevolve.environments.environment import Environment, Session, blameless
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Conversation, Policy, Reply
from coevolve.policies.replicas import Replicas

BATCH = 64  # episodes that advance together, unless params say otherwise
MISREAD_LIMIT = 3  # unreadable replies in a row that end an episode
SAID = 1000  # characters of an error that an episode keeps


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one episode: the agent's replies, tokens (prompt and observations included), tokens of one reply, seconds.

    ``batch``: of episodes that advance together, which is what their cache takes of memory.
    """

    max_turns: int
    episode_tokens: int
    reply_tokens: int
    max_seconds: float
    batch: int = BATCH

    @staticmethod
    def of(config: PolicySection) -> "Limits":
        return Limits(config.max_turns, config.episode_tokens, config.reply_tokens, config.max_seconds, config.batch)


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
    """What came of a request; ``replies`` hold the sampled tokens, ``seconds`` is wall time."""

    trajectory: Trajectory
    replies: list[Reply]
    seconds: float


def rollout(
    policy: Policy | Replicas,
    environment: Environment,
    requests: Sequence[RolloutRequest],
    limits: Limits,
    workers: int = 32,
    progress: Callable[[int], object] | None = None,
    done: Callable[[int, list[Episode]], object] | None = None,
) -> list[Episode]:
    """An episode for each request, in order. Replicas play a batch each at a time; ``workers`` sessions step at a time.

    No more episodes run at once than the environment has sessions (its ``capacity``).
    ``progress`` is called with the number of episodes that have just ended, ``done`` with each batch of ``in_batches`` that has been
    played: its number and its episodes. What a call of the agent's breaks ends its
    episode as ``BROKEN``, which scores 0. What breaks without its doing ends it as ``ENVIRONMENT_FAILED``: leave those
    out of statistics (``scored``), they say nothing about the agent.
    """
    batches = in_batches(requests, environment, limits)
    lock = threading.Lock()

    def ended(count: int) -> None:
        if progress and count:
            with lock:
                progress(count)

    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="environment")

    def play(policy: Policy, numbered: tuple[int, Sequence[RolloutRequest]]) -> list[Episode]:
        number, batch = numbered
        running = [_Running(one, environment, limits) for one in batch]
        try:
            _play_batch(policy, running, pool, ended)
        except WorkerLost:  # another plays it, from the start
            ended(-sum(one.stop is not None for one in running))
            for one in running:
                one.close()
            raise
        episodes = [one.episode() for one in running]
        if done:
            done(number, episodes)
        return episodes

    try:
        if isinstance(policy, Replicas):
            most = max((environment.capacity or len(requests)) // _size(environment, limits), 1)
            played = list(_shared(policy, play, list(enumerate(batches)), most))
        else:
            played = [play(policy, one) for one in enumerate(batches)]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return [episode for batch in played for episode in batch]


def in_batches(
    requests: Sequence[RolloutRequest], environment: Environment, limits: Limits
) -> list[Sequence[RolloutRequest]]:
    """``requests`` as they are played: those of a batch advance together, and what a policy samples may depend on who does."""
    size = _size(environment, limits)
    return [requests[start : start + size] for start in range(0, len(requests), size)]


def _size(environment: Environment, limits: Limits) -> int:
    return min(limits.batch, environment.capacity or limits.batch)


def _shared(
    replicas: Replicas,
    play: Callable[[Policy, tuple[int, Sequence[RolloutRequest]]], list[Episode]],
    batches: Sequence[tuple[int, Sequence[RolloutRequest]]],
    most: int,
) -> Iterator[list[Episode]]:
    """Each batch by whichever replica is free, at most ``most`` of them at once; one whose machine is lost is free no more."""
    free: Free[Policy] = Free(replicas.members)

    def play_free(batch: tuple[int, Sequence[RolloutRequest]]) -> list[Episode]:
        while True:
            replica = free.take()
            try:
                episodes = play(replica, batch)
            except WorkerLost:
                free.lose()
                continue
            except BaseException:
                free.give(replica)
                raise
            free.give(replica)
            return episodes

    try:
        yield from in_order(play_free, batches, min(len(replicas.members), most))
    except BaseException:
        replicas.close()  # or the other batches would be played to their ends first
        raise


def _play_batch(
    policy: Policy, running: Sequence["_Running"], pool: ThreadPoolExecutor, ended: Callable[[int], None]
) -> None:
    _concurrently(pool, [(one, one.start) for one in running])
    alive = [one for one in running if one.stop is None]
    ended(len(running) - len(alive))
    for number, one in enumerate(alive):
        one.conversation.key = number
    policy.begin([one.conversation for one in alive])
    while alive:
        replies = policy.act([one.conversation for one in alive])
        jobs = [(one, _taking(one, reply)) for one, reply in zip(alive, replies, strict=True)]
        _concurrently(pool, jobs)
        left = [one for one in alive if one.stop is None]
        ended(len(alive) - len(left))
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
    """An episode on its way. Its methods never raise: what breaks becomes a stop reason, which says whose fault it is."""

    request: RolloutRequest
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
        task = self.request.task
        self.conversation = Conversation(
            0, [], [], task, self.request.seed, self.limits.episode_tokens, self.limits.reply_tokens
        )

    def seconds_left(self) -> float:
        return self.began + self.limits.max_seconds - time.monotonic()

    def start(self) -> None:
        try:
            self.session = self.environment.open()
            turn = self.session.reset(self.request.task)
        except Exception as error:
            self._broken(error, StopReason.ENVIRONMENT_FAILED)  # no call was made yet
            return
        self.conversation.tools = turn.tools or []
        self._hear(turn.role, turn.content)
        if self._abandoned:
            self.close()

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
            elif wrong := reply.error if reply.invalid else _misfit(reply):
                self._hear("tool", f"not readable: {wrong}")
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
            self._broken(error, StopReason.ENVIRONMENT_FAILED if blameless(error) else StopReason.BROKEN)
        if self._abandoned:
            self.close()

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
            content = self._hear(turn.role, turn.content)
            self.calls.append(CallOutcome(call.name, call.arguments, not turn.error, content, self._user_turn))
            if turn.done:
                return True
        return False

    def _hear(self, role: str, content: str) -> str:
        content = writable(content)
        self.conversation.messages.append({"role": role, "content": content})
        return content

    def _end(self, reason: StopReason) -> None:
        assert self.session is not None
        if not self._abandoned:
            self.score = self.session.score()
            self.close()
            self.stop, self.ended = reason, time.monotonic()

    def _broken(self, error: Exception, fault: StopReason) -> None:
        if not self._abandoned:
            self._hear("tool", f"{fault.replace('_', ' ')}: {type(error).__name__}: {str(error)[:SAID]}")
            self.close()
            self.stop, self.ended = fault, time.monotonic()

    def close(self) -> None:
        """What goes wrong in closing changes nothing about the episode."""
        session, self.session = self.session, None
        if session is not None:
            with suppress(Exception):
                session.close()

    def episode(self) -> Episode:
        assert self.stop is not None
        one = self.request
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


def _misfit(reply: Reply) -> str:
    """What is wrong with the first call of a reply that is none; empty if all are calls."""
    return next(filter(None, (misfit(call.name, call.arguments) for call in reply.calls)), "")


def scored(episodes: Sequence[Episode]) -> Iterator[Episode]:
    """Those that say something about the agent."""
    return (one for one in episodes if one.trajectory.counts)
