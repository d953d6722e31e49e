"""Section `validate`: limits of the next dataset, which Great Expectations checks."""

from coevolve.core.section import Count, Section, Share


class Validate(Section):
    min_rows: Count = 16
    """Fewest rows of a dataset; fewer are a critical failure."""
    max_turn_characters: Count = 4000
    """Most characters of an instruction; longer instructions go to quarantine."""
    max_calls: Count = 40
    """Most calls of a reference; longer references go to quarantine."""
    max_near_duplicates: Share = 0.2
    """Share of near-duplicates above which the pipeline stops."""
    max_family_share: Share = 0.6
    """Share of the largest family above which the pipeline stops."""
