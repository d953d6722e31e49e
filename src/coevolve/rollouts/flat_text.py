"""Rollouts as decoded text: calls between <tool_call> tags, answers between <tool_response> tags (Hermes, Qwen).

Decoding without special tokens leaves role names in the text, at the edges of a reply. They are removed there.
"""

import re

from coevolve.rollouts.rollout_row import Message

ANSWER = re.compile(r"<tool_response>(.*?)</tool_response>", re.DOTALL)
# Templates of Qwen3 and others end a prompt with an empty thought, or with the beginning of one
THOUGHTS = ("<think>\n\n</think>", "<think>")


def messages_of(prompt: str, completion: str) -> list[Message]:
    """The messages of a rollout. Where the prompt holds a line `user`, the request is what follows the last one."""
    before, line, request = f"\n{request_of(prompt)}".rpartition("\nuser\n")
    messages: list[Message] = [{"role": "system", "content": before.strip()}] if before.strip() else []
    messages.append({"role": "user", "content": (request if line else prompt).strip()})
    for position, part in enumerate(ANSWER.split(completion)):
        if position % 2:
            messages.append({"role": "tool", "content": part.strip()})
        elif reply := part.strip().removeprefix("assistant").removesuffix("user").strip():
            messages.append({"role": "assistant", "content": reply})
    return messages


def request_of(prompt: str) -> str:
    """``prompt`` up to the end of the user's message: without what begins the agent's reply."""
    text = prompt.rstrip()
    for thought in THOUGHTS:
        text = text.removesuffix(thought).rstrip()
    return text.removesuffix("assistant").rstrip()
