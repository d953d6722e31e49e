"""Section `report`: the champion, and the amount of logged traces."""

from coevolve.core.section import Section, Share, Whole


class Report(Section):
    panel: str = "validation"
    """Frozen panel that decides which policy is champion."""
    max_regressions: Share = 0.25
    """Largest share of the champion's solved tasks that a challenger may fail."""
    traces: Whole = 20
    """Weakest trajectories per iteration to log as MLflow traces."""
