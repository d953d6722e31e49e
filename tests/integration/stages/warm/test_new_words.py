"""The tiny policy in a user's environment: it writes tools as one token, and the same seed gives the same bytes."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from coevolve.policies.config import PolicySection
from coevolve.rollout import Limits
from coevolve.stages.warm import new_words
from coevolve.stages.warm.config import Warm
from coevolve.stages.warm.warm_start import demonstrations
from tests import POLICY
from tests.unit.stages.train.small import outputs
from tests.unit.stages.warm.shop import Shop


def test_new_words_are_one_token_each_and_the_bytes_are_deterministic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_words, "COPY_STEPS", 3)
    shop = Shop()
    examples = demonstrations(Warm(), shop, Limits.of(PolicySection()))
    for name in ("a", "b"):
        new_words.fit(POLICY, list(shop.tools()), examples, 0, tmp_path / name)
    assert outputs(tmp_path / "a") == outputs(tmp_path / "b")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "a")
    for name in ("find", "pay", "block", "account", "amount"):
        assert len(tokenizer.encode(name, add_special_tokens=False)) == 1, name
    assert tokenizer.decode(tokenizer.encode("pay Zoë 5 €", add_special_tokens=False)) == "pay Zoë 5 €"
