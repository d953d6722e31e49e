"""The registry of the kinds of signals. Extraction, guidance, prompts, parameters and reports read it."""

from coevolve.stages.signals.boundary import BOUNDARY
from coevolve.stages.signals.forgetting import FORGETTING
from coevolve.stages.signals.kind import Kind
from coevolve.stages.signals.rare import RARE
from coevolve.stages.signals.unsolved import UNSOLVED

KINDS: dict[str, Kind] = {kind.name: kind for kind in (FORGETTING, BOUNDARY, RARE, UNSOLVED)}  # in the order of reports
