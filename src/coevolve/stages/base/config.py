"""Section `base`: the agent to start from."""

from coevolve.core.section import Section


class Base(Section):
    model: str = "tiny"
    """The agent to start from: tiny, a model directory, or a name on the Hugging Face hub."""
    revision: str | None = None
    """Commit of a model on the hub, or a branch, which is pinned to its current commit."""
