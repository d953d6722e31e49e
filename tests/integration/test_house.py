"""A stage depends on the code that it loads."""

import subprocess
import sys
from pathlib import Path

from coevolve.core.code_closure import SOURCE, closure
from coevolve.stages.code.digest import names
from tests.unit.test_house import STAGES


def test_static_imports_include_all_modules_loaded_at_run_time() -> None:
    """The static import closure of a stage contains every module that the stage loads at start."""
    program = (
        "import importlib, sys\n"
        "for stage in sys.argv[1:]:\n"
        "    for name in [name for name in sys.modules if name.split('.')[0] == 'coevolve']: del sys.modules[name]\n"
        "    importlib.import_module(f'coevolve.stages.{stage}.stage')\n"
        "    print(stage, *[m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'coevolve'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *names()], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == len(names())
    for line in done.stdout.splitlines():
        stage, *files = line.split()
        start = STAGES / stage / "stage.py"
        loaded = {str(Path(file).relative_to(SOURCE)) for file in files if Path(file).name != "__init__.py"}
        assert loaded - {str(start.relative_to(SOURCE))} <= closure(start, without=())


def test_commands_load_no_package_of_an_extra_before_they_run() -> None:
    """Then each explains itself in a base installation, and `pin` comes before torch."""
    program = (
        "import sys\nfrom coevolve.cli import COMMANDS, module\nfor name in COMMANDS: module(name)\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "transformers", "dvc", "mlflow", "great_expectations", "altair"}
