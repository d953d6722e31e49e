"""The example page, as for the unit tests."""

from tests.unit.stages.report.conftest import page

__all__ = ["page"]
