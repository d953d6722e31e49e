"""A chat template that shows each tool as its signature, for models whose template cannot show tools."""

from typing import Any

from coevolve.core.errors import CoevolveError
from coevolve.policies.agent_prompt import CLOSE, OPEN

START, END = "<|im_start|>", "<|im_end|>"  # marks of ChatML, the format of most small models
# Prefix-preserving. A signature takes a seventh of the tokens of a JSON schema. It omits the type of string arguments.
SIGNATURES = (
    "{%- set system = messages[0]['content'] if messages[0]['role'] == 'system' else '' %}"
    "{%- set rest = messages[1:] if messages[0]['role'] == 'system' else messages %}"
    "{%- if tools or system %}{{- '<|im_start|>system\\n' + system }}"
    "{%- if tools %}{{- ('\\n\\n' if system else '') + 'Tools:\\n' }}"
    "{%- for tool in tools %}{%- set one = tool.function or tool %}{{- one.name + '(' }}"
    "{%- set schema = one.parameters or {} %}"
    "{%- for name, property in (schema.properties or {}).items() %}{{- '' if loop.first else ', ' }}{{- name }}"
    "{%- if name not in (schema.required or []) %}{{- '?' }}{%- endif %}"
    "{%- if property.type and property.type is string and property.type != 'string' %}{{- ': ' + property.type }}{%- endif %}"
    "{%- endfor %}{{- ')\\n' }}{%- endfor %}"
    f'{{{{- \'A call: {OPEN}{{"name": NAME, "arguments": {{...}}}}{CLOSE}\' }}}}'
    "{%- endif %}{{- '<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in rest %}{{- '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') }}"
    # the name first: servers' parsers recognize no other order
    "{%- for call in message['tool_calls'] or [] %}{%- set made = call.function or call %}"
    f"{{{{- '{OPEN}{{\"name\": ' + (made.name | tojson) + ', \"arguments\": ' + ((made.arguments or {{}}) | tojson) + '}}{CLOSE}' }}}}"
    "{%- endfor %}"
    "{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)


def with_tools(tokenizer: Any, where: str, signatures: bool = False) -> str:
    """A template that shows tools: the tokenizer's own if it can, or else ``SIGNATURES``. With ``signatures`` always the latter.

    ``SIGNATURES`` uses ChatML's marks, so another template that cannot show tools is a CoevolveError.
    """
    own = tokenizer.chat_template
    own = str((own.get("tool_use") or own.get("default") or "") if isinstance(own, dict) else own or "")
    if "tools" in own and not signatures:
        return own
    marks = tokenizer.convert_tokens_to_ids([START, END])
    if START not in own or None in marks or tokenizer.unk_token_id in marks or tokenizer.eos_token != END:
        raise CoevolveError(
            f"{where}: its chat template cannot show tools and is not ChatML ({START}, {END}); write a template that shows "
            "tools into chat_template.jinja of the model directory"
        )
    return SIGNATURES
