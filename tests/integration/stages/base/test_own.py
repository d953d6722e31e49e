"""The tiny policy of a user's own environment: it knows the tools' names, and the same parameters give the same bytes."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from coevolve.environments import registry
from coevolve.policies.config import PolicySection
from coevolve.stages.base.config import Base, Own
from coevolve.stages.base.own import make
from tests.unit.stages.base.shop import Shop
from tests.unit.stages.train.small import outputs

SMALL = Base(copy_steps=5, demonstration_steps=5, unreliable_steps=5, batch=2)


def test_own_policy_is_deterministic_and_writes_tools_as_one_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(registry.REGISTERED, "shop", Shop)
    for name in ("a", "b"):
        make(SMALL, tmp_path / name, Own(environment="shop", split="seed", tasks=256, policy=PolicySection()))
    assert outputs(tmp_path / "a") == outputs(tmp_path / "b")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "a")
    for name in ("find", "pay", "block", "account", "amount"):
        assert len(tokenizer.encode(name, add_special_tokens=False)) == 1, name
    assert tokenizer.decode(tokenizer.encode("pay Zoë 5 €", add_special_tokens=False)) == "pay Zoë 5 €"
