from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.similarity import Index, shingles, similarity

TEXT = st.lists(
    st.sampled_from(["archive", "the", "mail", "about", "rent", "budget", "and", "pay", "Ana"]), max_size=8
).map(" ".join)


@given(st.lists(TEXT, max_size=12), TEXT, st.sampled_from([0.3, 0.5, 0.8, 0.9, 1.0]))
def test_index_finds_the_nearest_text(texts: list[str], wanted: str, threshold: float) -> None:
    index = Index(threshold)
    for number, text in enumerate(texts):
        index.add(str(number), text)
    all_ = [similarity(shingles(wanted), shingles(text)) for text in texts]
    best = max(all_, default=-1.0)
    found = index.nearest(wanted)
    if best < threshold:
        assert found is None
    else:
        assert found == (str(all_.index(best)), best), "of equal ones the first"


def test_similarity_ignores_case_and_punctuation_but_not_order() -> None:
    assert similarity(shingles("Archive the mail."), shingles("archive the mail")) == 1.0
    assert similarity(shingles("pay Ana and Ben"), shingles("pay Ben and Ana")) < 1.0
