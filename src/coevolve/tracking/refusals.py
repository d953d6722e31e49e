"""Tell a tracker that refuses events from a tracker that does not answer, and report a refusal in the tracker's words."""

from coevolve.core.untrusted import one_line, without_secrets

# words of a refusal → what to do about it
REMEDIES = {
    "deleted experiment": "run `mlflow experiments restore`, or set another tracking.experiment in params.yaml",
    "maintenance mode": "set MLFLOW_TRACKING_URI to a server or to sqlite:///mlflow.db, or unset it",
    "unsupported URI": "set MLFLOW_TRACKING_URI to a server or to sqlite:///mlflow.db, or unset it",
    "databricks": "set the credentials of Databricks, or unset MLFLOW_TRACKING_URI",
    "No module named": "install that package",
    "readonly database": "make the file writable, or set MLFLOW_TRACKING_URI to another store",
    "unable to open database": "make the folder writable, or set MLFLOW_TRACKING_URI to another store",
    "Permission denied": "fix the permissions, or set MLFLOW_TRACKING_URI to another store",
}
ADVICE = "correct its address and your rights there; `coevolve doctor` tries it"
RESTART = "start the server, or correct MLFLOW_TRACKING_URI"


def said(error: BaseException) -> str:
    """What the tracker did, with its own words: it refuses, or it does not answer."""
    silence = _silence(error)
    return f"does not answer ({silence})" if silence else f"refuses: {_words(error)}"


def remedy(error: BaseException) -> str:
    """What to do about ``error``; empty if the tracker did not answer, so that the same request may succeed later."""
    text = str(error)
    return "" if _silence(error) else next((remedy for part, remedy in REMEDIES.items() if part in text), ADVICE)


def _silence(error: BaseException) -> str:
    """The reason why the tracker did not answer; empty if it answered."""
    from requests import exceptions

    silent = (ConnectionError, TimeoutError, exceptions.ConnectionError, exceptions.Timeout, exceptions.RetryError)
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    return _words(causes[-1]) if any(isinstance(cause, silent) for cause in causes) else ""


def _words(error: BaseException) -> str:
    """The text of ``error`` as one line without secrets, or its type if it has no text."""
    return one_line(without_secrets(str(error)), 400) or type(error).__name__
