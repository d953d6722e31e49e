"""The only loop that plays policies in environments: training, evaluation and verification all use it.

The episodes of a batch advance together, one turn at a time: the policy replies to all of them at once, then their
environments step concurrently. Only the requests decide the batches, so no bit of an episode depends on the number of
processes. Every episode ends with an explicit reason.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from coevolve.core.concurrency import OwnThread, Threads, in_order
from coevolve.core.deadline import Deadline
from coevolve.core.errors import CoevolveError
from coevolve.core.hashing import content_hash
from coevolve.core.interruptions import named
from coevolve.core.processes import WorkerLost
from coevolve.core.task import CallOutcome, Score, Task, misfit
from coevolve.core.trajectories import UNREAD, StopReason, Trajectory
from coevolve.core.untrusted import writable
from coevolve.environments.border import crossed
from coevolve.environments.environment import Environment, FailureReason, Session, blameless
from coevolve.policies.config import PolicySection
from coevolve.policies.policy import Conversation, Policy, Replicas, Reply

BATCH = 64  # episodes that advance together, unless params say otherwise
MISREAD_LIMIT = 3  # unreadable replies in a row that end an episode
UNANSWERED = "no answer within {:g} s"  # ends the message of a call that never ends
ERROR_CHARACTERS = 1000  # characters of an error message that an episode keeps


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one episode: the agent's replies, tokens (with prompt and observations), tokens of one reply.

    ``batch`` is the number of episodes that advance together. It bounds the memory of their cache. ``max_seconds`` guards
    against calls that never end: see ``_concurrently``.
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
    """The result of a request. ``replies`` hold the sampled tokens, ``seconds`` is wall time."""

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
    """Play one episode for each request and return the episodes in order.

    Each replica plays one batch at a time, and ``workers`` sessions step concurrently, each in a thread of its own. The
    environment's ``capacity`` limits how many episodes run at once. ``rollout`` calls ``progress`` with the number of
    episodes that have just ended, and ``done`` with the number and the episodes of each finished batch of ``in_batches``.

    A failure after a call ends its episode as ``BROKEN``, which scores 0, unless ``blameless`` excuses the agent. Then, and
    before the first call, it ends as ``ENVIRONMENT_FAILED``: ``scored`` leaves such episodes out of statistics. A call that
    never ends ends its episode as ``TIMEOUT``, which scores 0.
    """
    batches = in_batches(requests, environment, limits)
    lock = threading.Lock()

    def ended(count: int) -> None:
        if progress and count:
            with lock:
                progress(count)

    threads = Threads(workers, "environment")

    def play(policy: Policy, numbered: tuple[int, Sequence[RolloutRequest]]) -> list[Episode]:
        number, batch = numbered
        running = [_Running(request, environment, limits, threads.take()) for request in batch]
        try:
            _play_batch(policy, running, ended)
        except WorkerLost:  # another replica plays the batch from the start
            ended(-sum(episode.stop is not None for episode in running))
            _concurrently([(episode, episode.close) for episode in running])
            raise
        finally:
            for episode in running:
                threads.give(episode.thread)
        episodes = [episode.episode() for episode in running]
        if done:
            done(number, episodes)
        return episodes

    try:
        if isinstance(policy, Replicas):
            most = max((environment.capacity or len(requests)) // _size(environment, limits), 1)
            played = list(_shared(policy, play, list(enumerate(batches)), most))
        else:
            played = [play(policy, numbered) for numbered in enumerate(batches)]
    finally:
        threads.close()
    return [episode for batch in played for episode in batch]


def in_batches(
    requests: Sequence[RolloutRequest], environment: Environment, limits: Limits
) -> list[Sequence[RolloutRequest]]:
    """Split ``requests`` into batches. What a policy samples may depend on which episodes advance together."""
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
    """Play each batch on a free replica, at most ``most`` batches at once."""
    try:
        concurrency = min(len(replicas.members), most)
        yield from in_order(lambda batch: replicas.submit(play, batch).result(), batches, concurrency)
    except BaseException:
        replicas.shutdown()  # otherwise the remaining batches would play to their ends first
        raise


def _play_batch(policy: Policy, running: Sequence["_Running"], ended: Callable[[int], None]) -> None:
    _concurrently([(episode, episode.start) for episode in running])
    alive = [episode for episode in running if episode.stop is None]
    ended(len(running) - len(alive))
    for number, episode in enumerate(alive):
        episode.conversation.key = number
    policy.begin([episode.conversation for episode in alive])
    while alive:
        replies = policy.act([episode.conversation for episode in alive])
        pairs = zip(alive, replies, strict=True)
        _concurrently([(episode, partial(episode.take, reply)) for episode, reply in pairs])
        broken = [episode for episode in alive if episode.stop is None and episode.error is not None]
        _concurrently([(episode, episode.judge) for episode in broken])
        left = [episode for episode in alive if episode.stop is None]
        ended(len(alive) - len(left))
        alive = left


def _concurrently(jobs: Sequence[tuple["_Running", Callable[[], None]]]) -> None:
    """Run the jobs, each in the thread of its episode. If none ends for ``max_seconds`` of running time, give up those that run.

    A job that waits for its turn or for another job is not given up before the job that it waits for.
    """
    waiting = {episode.thread.submit(job): episode for episode, job in jobs}
    deadline = Deadline(jobs[0][0].limits.max_seconds if jobs else 0.0)
    while waiting:
        tick = deadline.tick()
        ended = wait(waiting, tick).done
        stuck = [] if ended or tick else [future for future in waiting if future.running()]
        for future in ended:
            future.result()
        for future in stuck:
            waiting[future].abandon()
            waiting[future].thread.give_up()
        if ended or not tick:
            deadline.restart()
        over = {*ended, *stuck}
        waiting = {future: episode for future, episode in waiting.items() if future not in over}


@dataclass(slots=True)
class _Running:
    """An episode in progress. Its methods never raise: a failure becomes a stop reason that says who caused it.

    Only jobs of its ``thread`` use the session, from ``open`` to ``close``.
    """

    request: RolloutRequest
    environment: Environment
    limits: Limits
    thread: OwnThread
    session: Session | None = None
    stop: StopReason | None = None
    score: Score = field(default_factory=lambda: Score(0.0))
    error: BaseException | None = None  # raised by the session after a call, and not yet judged
    failure: FailureReason | None = None
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

    def start(self) -> None:
        try:
            self.session = self.environment.open()
            turn = self.session.reset(self.request.task)
        except (Exception, SystemExit) as error:
            self.fail(error, FailureReason.START)  # the agent has made no call yet
        else:
            self.conversation.tools = turn.tools or []
            self._hear(turn.role, turn.content)
        if self._abandoned:
            self.close()

    def take(self, reply: Reply) -> None:
        """Execute ``reply`` in the environment."""
        self.replies.append(reply)
        self._hear("assistant", reply.text)
        if reply.prompt_tokens:
            self.conversation.room = self.limits.episode_tokens - reply.prompt_tokens - reply.reply_tokens
        else:
            self.conversation.room -= len(reply.prompt_ids) + len(reply.token_ids)
        try:
            if reply.refused:
                self._hear("tool", f"no reply: {reply.refused}")
            if reply.lost:
                self.fail(CoevolveError(reply.lost), FailureReason.SERVER)
            elif reply.truncated:
                self._end(StopReason.MAX_TOKENS)
            elif reply.refused:
                self._end(StopReason.REFUSED)
            elif wrong := reply.error if reply.invalid else _misfit(reply):
                self._hear("tool", UNREAD + wrong)
                self._misread += 1
                if self._misread >= MISREAD_LIMIT:
                    self._end(StopReason.INVALID)
            elif self._execute(reply):
                self._end(StopReason.DONE)
            if self.stop is None and len(self.replies) >= self.limits.max_turns:
                self._end(StopReason.MAX_TURNS)
        except (Exception, SystemExit) as error:
            self.error = error
        if self._abandoned or self.error is not None:
            self.close()

    def judge(self) -> None:
        """End an episode whose session broke, and decide whether the agent is to blame. This may open a new session."""
        assert self.error is not None
        self.fail(self.error, blameless(self.error, self.environment, self.request.task))

    def abandon(self) -> None:
        """End the episode although its job still runs. The agent is to blame, unless no session started."""
        self._abandoned = True
        if self.stop is not None:
            return  # only ``close`` does not end
        if self.error is not None:
            self.stop, self.failure = StopReason.ENVIRONMENT_FAILED, FailureReason.GONE
        elif self.replies:
            self.stop = StopReason.TIMEOUT
        else:
            self.stop, self.failure = StopReason.ENVIRONMENT_FAILED, FailureReason.START
        message = f"{self.stop.replace('_', ' ')}: {UNANSWERED.format(self.limits.max_seconds)}"
        self.conversation.messages.append({"role": "tool", "content": message})
        self.ended = time.monotonic()

    def _execute(self, reply: Reply) -> bool:
        """Pass ``reply`` to the environment. True if the environment ends the episode."""
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
            turn = self.session.step(crossed(call, self.conversation.tools))
            if self._abandoned:
                return False
            content = self._hear(turn.role, turn.content)
            self.calls.append(CallOutcome(call.name, call.arguments, not turn.error, content, self._user_turn))
            if turn.done:
                return True
        return False

    def _hear(self, role: str, content: str) -> str:
        if not isinstance(content, str):
            raise TypeError(f"the session says an object of type {type(content).__name__}, expected a text")
        content = writable(content)
        if not self._abandoned:
            self.conversation.messages.append({"role": role, "content": content})
        return content

    def _end(self, reason: StopReason) -> None:
        assert self.session is not None
        if not self._abandoned:
            score = self.session.score()
            if not math.isfinite(score.reward):
                raise ValueError(f"the reward is {score.reward}, expected a number from 0 to 1")
            self.score, self.stop, self.ended = score, reason, time.monotonic()
            self.close()

    def fail(self, error: BaseException, failure: FailureReason | None) -> None:
        """End the episode with the ``error`` of its session. Without a ``failure`` of the environment, the agent is to blame."""
        if not self._abandoned:
            reason = StopReason.ENVIRONMENT_FAILED if failure else StopReason.BROKEN
            self._hear("tool", f"{reason.replace('_', ' ')}: {named(error)[:ERROR_CHARACTERS]}")
            self.stop, self.failure, self.ended = reason, failure, time.monotonic()
            self.close()

    def close(self) -> None:
        """Close the session. An error while closing does not change the episode."""
        session, self.session = self.session, None
        if session is not None:
            with suppress(Exception, SystemExit):
                session.close()

    def episode(self) -> Episode:
        assert self.stop is not None
        request = self.request
        identity = [request.task.task_id, request.iteration, request.step, request.group, request.sample, request.seed]
        trajectory = Trajectory(
            trajectory_id=content_hash(identity),
            task_id=request.task.task_id,
            iteration=request.iteration,
            step=request.step,
            group=request.group,
            sample=request.sample,
            messages=list(self.conversation.messages),
            calls=list(self.calls),
            score=self.score.reward,
            stop_reason=self.stop,
            tokens=[len(reply.token_ids) or reply.reply_tokens for reply in self.replies],
            checks=self.score.checks,
            failure=str(self.failure or ""),
        )
        return Episode(trajectory, list(self.replies), self.ended - self.began)


def _misfit(reply: Reply) -> str:
    """The flaw of the first malformed call in ``reply``; empty if all calls are well-formed."""
    return next(filter(None, (misfit(call.name, call.arguments) for call in reply.calls)), "")


def scored(episodes: Sequence[Episode]) -> Iterator[Episode]:
    """The episodes that say something about the agent."""
    return (episode for episode in episodes if episode.trajectory.counts)
