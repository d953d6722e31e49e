"""What every stage says of its iteration: figures by name, and where those who read a run show them."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from coevolve.core.io import write_json
from coevolve.core.paths import Paths
from coevolve.core.task import SCHEMA_VERSION

# figures that more than one stage writes, or that readers do more with than show them
TASKS = "tasks"  # in the dataset of the iteration
ACCEPTED = "accepted"  # candidates
TOKENS = "training tokens"  # that the policy generated while it trained
FAILURE_SUCCESS = "the failure agent succeeds"  # shares of its episodes, and of its failures: after it has learned
FAILURE_IDLE, FAILURE_DISTINCT = "the failure agent does nothing", "failure agent distinct calls"
SPEC_VALID, SPEC_ENTROPY = "specs that can be taken", "entropy of goals"  # of what a generator writes
SPEC_SAMPLE = "effective sample of the generator"  # as a share of the generations that it learns from


@dataclass(frozen=True, slots=True)
class StageSummary:
    """Of one stage in one iteration; a stage that makes dataset or policy t + 1 speaks of iteration t + 1.

    ``figures`` are None where there is nothing to measure them on. Whole numbers are counts, which add up over
    iterations. ``columns`` of them stand in the table that ends a run, ``costs`` add up to the run's budget, and
    ``plots`` are curves over the iterations, those under one title in one chart. ``notes`` are what needs a look.
    ``arithmetic`` is by which a model computed (``coevolve.core.arithmetic``), where one did.
    """

    stage: str
    iteration: int
    figures: Mapping[str, int | float | None]
    columns: list[str] = field(default_factory=list)
    costs: list[str] = field(default_factory=list)
    plots: Mapping[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    arithmetic: str = ""
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        named = [*self.columns, *self.costs, *(name for names in self.plots.values() for name in names)]
        if unknown := [name for name in named if name not in self.figures]:
            raise ValueError(f"columns, costs and plots name figures, and {', '.join(unknown)} is none")


def write_summary(summary: StageSummary) -> None:
    write_json(Paths.summary(summary.iteration, summary.stage), asdict(summary))
