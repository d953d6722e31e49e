"""Claims: what a study predicts before its runs, and the outcome."""

import math
from pathlib import Path

import pytest
from scipy.stats import ttest_1samp

from coevolve.core.errors import CoevolveError
from studies.claims import ERROR, Claim, judge
from studies.study_results import load, report
from tests.unit.studies.test_study_results import STUDY, results


def claim(mean: float = 0.0, clear: float = 0.0) -> Claim:
    return Claim(arm="signals", over="static", panel="test", mean=mean, clear=clear)


def test_holm_correction_matches_hand_computation() -> None:
    """Three claims with p of 0.01.., 0.02.. and 0.2: Holm multiplies them by 3, 2 and 1."""
    sure, less, unsure = [0.09, 0.10, 0.11, 0.05], [0.02, 0.03, 0.04, 0.01], [0.1, -0.02, 0.05, 0.0]
    raw = [float(ttest_1samp(values, 0.0).pvalue) for values in (sure, less, unsure)]
    found = judge([(claim(), values) for values in (unsure, less, sure)])
    assert [one.p for one in found] == pytest.approx([raw[2], raw[1] * 2, raw[0] * 3])
    assert [one.row[-1] == "holds" for one in found] == [False, False, True]
    # t of three degrees of freedom at 1 - 0.05/3/2, from tables
    assert found[2].gain.half == pytest.approx(
        4.8567 * math.sqrt(sum((x - 0.0875) ** 2 for x in sure) / 3) / 2, rel=1e-4
    )


def test_mean_below_the_claim_is_a_miss_however_significant() -> None:
    (one,) = judge([(claim(mean=0.05), [0.03, 0.031, 0.029])])
    assert one.p < ERROR and one.row[-1] == "missed by 2.0 points"
    (one,) = judge([(claim(clear=-0.05), [-0.01, 0.0, -0.005])])
    assert one.row[-1] == "missed by 0.5 points", "the mean is to reach 0 unless the claim says otherwise"
    (one,) = judge([(claim(mean=-0.05, clear=-0.05), [-0.01, 0.0, -0.005])])
    assert one.row[-1] == "holds"
    (one,) = judge([(claim(clear=-0.025), [0.1, -0.15, 0.1])])
    assert one.row[-1] == "inconclusive: the interval includes -2.5"
    (one,) = judge([(claim(), [0.1, -0.05, 0.02])])
    assert one.row[-1] == "inconclusive: the interval includes 0"


def test_study_table_shows_the_outcome_of_each_claim() -> None:
    claims = [claim(mean=0.05), Claim(arm="signals", over="before training", panel="hard", clear=-0.02)]
    found = report(STUDY.model_copy(update={"claims": claims}), results([0.10, 0.12, 0.11]))
    assert "| signals over static on test: by 5 points or more, clear of 0 | 3 | +11.0 ± 2.5 |" in found
    assert "corrected for 2 claims (Holm)" in found and "fewer than two seeds" not in found
    one = report(STUDY.model_copy(update={"claims": claims}), results([0.10]))
    assert "Claims with fewer than two seeds so far: 2." in one and "signals over static on test:" not in one
    unpaired = [one for one in results([0.10, 0.12]) if (one.arm, one.seed) != ("static", 1)]
    some = report(STUDY.model_copy(update={"claims": claims}), unpaired)
    assert "corrected for 1 claims (Holm); p < 0.05 is sure.\nClaims with fewer than two seeds so far: 1." in some


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("arm: c, over: a", r"against, claims: no arm c; expected some of: a, b"),
        ("arm: a, over: b, mean: 5", r"claims\.0\.mean"),
    ],
)
def test_incomplete_claim_is_refused(tmp_path: Path, changes: str, said: str) -> None:
    text = f"question: q\nseeds: [0]\npanel: test\nagainst: [a]\narms: {{a: {{}}, b: {{}}}}\nclaims: [{{panel: test, {changes}}}]\n"
    (tmp_path / "study.yaml").write_text(text)
    with pytest.raises(CoevolveError, match=said):
        load(tmp_path / "study.yaml")
