"""The example page, as for the unit tests."""

from tests.unit.stages.report.conftest import charts, page, view

__all__ = ["charts", "page", "view"]
