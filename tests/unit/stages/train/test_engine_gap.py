"""The difference between the sampling engine and the learning model, on plain tensors."""

import math

import pytest
import torch

from coevolve.stages.train.engine_gap import differences, gap


def test_only_the_agents_tokens_count() -> None:
    learner = torch.tensor([[-1.0, -2.0, -3.0], [-4.0, -5.0, -6.0]])
    engine = torch.tensor([[-1.5, 0.0, -3.0], [-4.0, 0.0, 0.0]])
    written = torch.tensor([[1, 0, 1], [1, 0, 0]])
    assert differences(learner, engine, written).tolist() == [0.5, 0.0, 0.0]


def test_mean_and_maximum_use_absolute_differences() -> None:
    found = gap(torch.tensor([0.05, -0.25, 0.0, 0.1]))
    assert found["engine_gap_mean"] == pytest.approx(0.1)
    assert found["engine_gap_max"] == pytest.approx(0.25)


def test_share_counts_ratios_on_both_sides_of_the_band() -> None:
    ratios = torch.tensor([0.89, 0.91, 1.0, 1.09, 1.11])
    assert gap(ratios.log())["engine_gap_share"] == pytest.approx(0.4)


def test_token_without_a_log_probability_does_not_count() -> None:
    assert gap(torch.tensor([math.nan, 0.5])) == gap(torch.tensor([0.5]))
    assert gap(torch.tensor([math.nan])) == gap(torch.tensor([])) == {}
