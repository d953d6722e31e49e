"""A tracker's pages show what agents wrote, and it does nothing there."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from coevolve.tracking.mlflow_sink import Mlflow
from coevolve.tracking.record import TrackedRun
from tests.integration.tracking.example import TASKS, client, episode, runs


@pytest.mark.parametrize(
    "image", ["![x](http://h/{}.png)", "![x][r]\n\n[r]: http://h/{}.png", r"\![x](http://h/{}.png)"]
)
def test_words_in_a_trace_load_no_image(image: str, root: Path) -> None:
    """MLflow's page of a trace shows words as Markdown. An image would tell a server of the agent's choice who reads them."""
    told = [{"role": role, "content": image.format(role)} for role in ("user", "assistant", "tool")]
    one = replace(episode("t", TASKS[0], 0.0), task_id=image, messages=told, checks={image: True})
    uri = f"sqlite:///{root}/mlruns/mlflow.db"
    Mlflow("test").log("pipeline", "f" * 32, TrackedRun([], traces=[(one, {})]))
    (pipeline,) = runs(uri, "pipeline")
    (trace,) = client(uri).search_traces(locations=[pipeline.info.experiment_id])
    shown = [trace.info.tags["task_id"], *(json.dumps([span.inputs, span.outputs]) for span in trace.data.spans)]
    assert all(r"!\[x]" in text.replace(r"\\", "\\") and "![" not in text for text in shown)
