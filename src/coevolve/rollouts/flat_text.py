"""Rollouts that a trainer logs as decoded text: the messages in it.

Answers stand between <tool_response> tags (Hermes, Qwen). Decoding without special tokens leaves the names of roles in
the text, at the edges of a reply. ``messages_of`` removes them.
"""

import re
from typing import Any

CHATML = re.compile(r"<\|im_(?:start|end)\|>")  # some trainers keep these marks
ANSWER, ANSWER_END = "<tool_response>", "</tool_response>"
# how calls of Llama and Gemma begin when decoding drops their marks
BARE = re.compile(r'\s*(?:\{"name":|call:\w+\{)')
# Templates of Qwen3 and others end a prompt with an empty thought, or with the beginning of one
THOUGHTS = ("<think>\n\n</think>", "<think>")
HEARD = ("user", "tool", "ipython", "observation")  # the line before an answer, where the names of roles are left


def messages_of(prompt: str, completion: str) -> list[dict[str, Any]]:
    """The messages of a rollout. Where the prompt holds a line `user`, the request is what follows the last one.

    If the prompt ends with the name of a role, decoding left the names. Then an answer follows a line of HEARD, or
    another answer. All others are the agent's words. Takes time in proportion to the text.
    """
    prompt, completion = CHATML.sub("", prompt), CHATML.sub("", completion)
    opening = request_of(prompt)
    before, line, request = f"\n{opening}".rpartition("\nuser\n")
    messages = [{"role": "system", "content": before.strip()}] if before.strip() else []
    messages.append({"role": "user", "content": (request if line else prompt).strip()})
    named = any(role in prompt[len(opening) :] for role in ("assistant", "model"))
    words, *parts = completion.split(ANSWER)
    reply, follows = [words], False  # whether an answer precedes the last words
    for part in parts:
        answer, closed, after = part.partition(ANSWER_END)
        text, _, last = reply[-1].rstrip().rpartition("\n")
        heard = last in HEARD or not named or (follows and not reply[-1].strip())
        if closed and heard:
            reply[-1] = text if last in HEARD else reply[-1]
            messages += [*_said(reply), {"role": "tool", "content": answer.strip()}]
            reply, follows = [after], True
        else:
            reply += [ANSWER, part]
            follows = False
    return messages + _said(reply)


def _said(reply: list[str]) -> list[dict[str, Any]]:
    """The agent's message, without the name of its role; none without words."""
    text = "".join(reply).strip().removeprefix("model\n").removeprefix("assistant").strip()
    return [{"role": "assistant", "content": text}] if text else []


def request_of(prompt: str) -> str:
    """``prompt`` up to the end of the user's message: without what begins the agent's reply."""
    text = CHATML.sub("", prompt).rstrip()
    for thought in THOUGHTS:
        text = text.removesuffix(thought).rstrip()
    return text.removesuffix("assistant").removesuffix("\nmodel").rstrip()
