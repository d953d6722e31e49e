# make repro   run the loop, then print what came of it
# make test    run every test
# make ui      open MLflow on what ran (http://127.0.0.1:5000)
# make bench   print the figures of docs/measured.md
# make docs    build the documentation into site/
# make study   run the ablation: arms x seeds as DVC experiments (hours; goes on where it stopped)
# make lint    ruff and mypy
# make lock    pin what is installed

PYTHON ?= python3.11
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
export PATH := $(BIN):$(PATH)
export PYTHONPATH := $(CURDIR)/src
export OMP_NUM_THREADS ?= 1
export MLFLOW_DISABLE_TELEMETRY := true
export HF_HUB_DISABLE_TELEMETRY := 1
export HF_HUB_OFFLINE ?= 1
export DO_NOT_TRACK := 1

HOSTED := appworld openenv textworld

.PHONY: environments repro test ui bench docs study lint lock install
.DELETE_ON_ERROR:

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt requirements-bfcl.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -q --progress-bar off -c constraints.txt -e '.[dev]'
	$(BIN)/python -m pip install --disable-pip-version-check -q --progress-bar off --no-deps -r requirements-bfcl.txt
	touch $@

repro: install
	$(BIN)/dvc repro
	@$(BIN)/coevolve summary

test: install environments
	COEVOLVE_REQUIRE_BFCL=1 $(BIN)/python -m pytest

# environments with virtual environments of their own, in scratch/environments
environments: install
	@for name in $(HOSTED); do $(BIN)/coevolve env install $$name || exit 1; done

ui: install
	@$(BIN)/coevolve ui

bench: install
	@for script in environments rollouts signals verify pipeline; do echo "== $$script"; $(BIN)/python benchmarks/$$script.py || exit 1; done

docs: install
	$(BIN)/mkdocs build -q

study: install
	$(BIN)/coevolve study studies/ablation

lint: install
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

lock:
	$(BIN)/python -m pip freeze --exclude-editable | grep -v -i -E '^(bfcl[-_]eval|coevolve|torch)(==| @)' | sed 's/+cpu$$//' > constraints.txt
	echo 'torch==2.13.0' >> constraints.txt
