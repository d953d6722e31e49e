"""Section `endpoint`: an OpenAI-compatible server, for explorers and synthesizers that ask an LLM."""

from typing import Annotated

from pydantic import AfterValidator, Field

from coevolve.core.section import Count, NotNegative, Positive, Section, Whole
from coevolve.core.untrusted import base_url


class EndpointSection(Section):
    url: Annotated[str, AfterValidator(base_url)] = "http://127.0.0.1:8000/v1"
    """Base URL of an OpenAI-compatible server: vLLM, a hosted API, `transformers serve`."""
    model: str = ""
    """The model's name on the server."""
    key: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] = "OPENAI_API_KEY"
    """Environment variable that holds the API key, never the key itself; if it is unset, no key is sent."""
    concurrency: Count = 8
    """Requests at the same time."""
    timeout: Positive = 120.0
    """Seconds that one reply may take."""
    retries: Whole = 6
    """Attempts after the first, with growing pauses, or after the server's Retry-After."""
    budget_requests: Whole = 4000
    """Requests that one stage may send; the stage keeps its results until then."""
    budget_tokens: Whole = 4000000
    """Tokens that one stage may use, prompts and replies together."""
    reply_tokens: Count = 1024
    """Tokens in one reply."""
    temperature: NotNegative = 0.7
    """Sampling temperature."""
    input_price: NotNegative = 0.0
    """USD per million prompt tokens, for the report."""
    output_price: NotNegative = 0.0
    """USD per million reply tokens, for the report."""
    replay: str | None = None
    """A requests.jsonl that answers instead of the network, such as data/0/requests/explore/requests.jsonl."""
