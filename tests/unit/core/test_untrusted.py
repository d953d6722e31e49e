"""Which parts of a URL are shown."""

from hypothesis import given
from hypothesis import strategies as st

from coevolve.core.untrusted import without_secrets

SECRETS = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=6).map(lambda text: f"s3cr3t{text}")


@given(st.sampled_from(["http", "https", "postgresql", "mysql+pymysql"]), SECRETS, SECRETS)
def test_password_and_query_are_hidden(scheme: str, password: str, token: str) -> None:
    url = f"{scheme}://me:{password}@db.example:5432/runs?sslmode=require&token={token}"
    shown = without_secrets(f"API request to {url} failed")
    assert "s3cr3t" not in shown
    assert shown in (f"API request to {scheme}://{place} failed" for place in ("db.example:5432/runs", "***"))


def test_server_address_stays_readable() -> None:
    shown = without_secrets("postgresql://me:p%40ss@db.example:5432/runs?token=me@home is not there")
    assert shown == "postgresql://db.example:5432/runs is not there"


def test_text_without_secrets_stays_unchanged() -> None:
    for url in ("sqlite:////home/me/mlruns/mlflow.db", "http://127.0.0.1:5000", "a@b asked, why?"):
        assert without_secrets(url) == url
