"""Section `policy`: how the agent plays, in all stages."""

from typing import Any, Literal

from coevolve.core.section import Count, Positive, Section

ROOMY = {"max_turns": 100, "episode_tokens": 32768, "reply_tokens": 1024}  # limits that fit agents of any size


class PolicySection(Section):
    threads: Count = 1
    """Torch threads per process; on two busy cores one thread is faster than two."""
    batch: Count = 64
    """Episodes that advance together; more is faster on a GPU and takes more memory."""
    max_turns: Count = 16
    """Replies of the agent in one episode."""
    episode_tokens: Count = 768
    """Tokens in one episode, prompt and observations included."""
    reply_tokens: Count = 64
    """Tokens in one reply."""
    max_seconds: Positive = 900.0
    """Seconds after which calls that never end are given up, if no call of the batch ends. Time while stopped does not count."""
    backend: Literal["transformers", "vllm"] = "transformers"
    """Library that generates outside training."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights; bfloat16 on GPUs."""
    template: dict[str, Any] = {}
    """Variables of the chat template, such as {enable_thinking: false} for Qwen3."""
