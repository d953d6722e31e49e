"""The notebook of the documentation runs as a whole on a finished run, in its own kernel."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests import ROOT
from tests.project import Project
from tests.waiting import PATIENCE


def test_tour_runs_on_a_finished_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(project.folder / "src"))
    tour = nbformat.read(ROOT / "docs/tour.ipynb", as_version=4)
    for cell in tour.cells:
        cell.pop("outputs", None) if cell.cell_type != "code" else cell.update(outputs=[])
    place = {"metadata": {"path": str(project.folder / "docs")}}  # it finds the project by itself
    NotebookClient(tour, timeout=PATIENCE, kernel_name="python3", resources=place).execute()
    outputs = [one for cell in tour.cells if cell.cell_type == "code" for one in cell.outputs]
    said = "".join(one.text for one in outputs if one.output_type == "stream" and one.name == "stdout")
    pictures = [one for one in outputs if one.output_type == "execute_result" and "image/png" in one.data]
    assert len(pictures) == 4
    assert "policies/0 to policies/" in said and "exploration " in said and "tasks lost" in said


def test_stored_tour_was_run_in_order_and_names_no_machine() -> None:
    text = (ROOT / "docs/tour.ipynb").read_text(encoding="utf-8")
    code = [cell for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(cell.outputs for cell in code)
    assert not any(one.output_type == "error" for cell in code for one in cell.outputs)
    assert not any(f"/{place}/" in text for place in ("home", "tmp", "root"))
