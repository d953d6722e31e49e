"""Section `validate`: limits of the next dataset, which Great Expectations checks."""

from coevolve.core.section import Count, Section, Share


class Validate(Section):
    min_rows: Count = 16
    """Rows below which a dataset is a critical failure."""
    max_turn_characters: Count = 4000
    """Characters above which an instruction is quarantined."""
    max_calls: Count = 40
    """Calls above which a reference is quarantined."""
    max_near_duplicates: Share = 0.2
    """Share of near-duplicates above which the pipeline stops."""
    max_family_share: Share = 0.6
    """Share of the largest family above which the pipeline stops."""
