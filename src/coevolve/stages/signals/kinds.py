"""The kinds of signals there are: the one registry that extraction, guidance, prompts, parameters and reports read."""

from coevolve.stages.signals.boundary import BOUNDARY
from coevolve.stages.signals.forgetting import FORGETTING
from coevolve.stages.signals.kind import Kind
from coevolve.stages.signals.rare import RARE
from coevolve.stages.signals.unsolved import UNSOLVED

KINDS: dict[str, Kind] = {kind.name: kind for kind in (FORGETTING, BOUNDARY, RARE, UNSOLVED)}  # in the order of reports
