# The project's commands. Each sets up what it needs in .venv, from nothing but Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready
TIMES ?= 1

.DEFAULT_GOAL := help
.PHONY: help drill test test-again test-all check walk walk-orchestrator bench docs docs-pictures measure-agents measure-terminators measure-cleaning measure-temporal clean

help: ## what there is to do
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-22s%s\n", $$1, $$2}'

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit("pytest-cancelcontract needs Python 3.11 or newer, and %s is %d.%d: try make PYTHON=python3.12" % (sys.executable, v[0], v[1]) if v < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $(INSTALLED)

$(READY): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(READY)

SAMPLE = $(BIN)/cancelcontract run --grace 1 $(2) -- $(BIN)/python fixtures/wrappers/$(1).py --grace 0.8 '{workspace}' '{source}' '{runner}'

drill: $(INSTALLED) ## drill the bundled samples: two that keep the contract, and one that does not
	$(call SAMPLE,kept/subreaper,)
	$(call SAMPLE,kept/guard,)
	@echo
	@echo "The next one forgets what its leader leaves behind, and must be found broken:"
	@$(call SAMPLE,broken/calls_off_the_kill,--scenario deaf --scenario deaf-child); \
	if test $$? -eq 1; then echo "Found broken, as it must be."; else echo "It was not found broken: that is a fault of the plugin." >&2; exit 1; fi

test: $(READY) ## the tests, but for variants of what others show
	$(BIN)/python -m pytest -q --ignore tests/walk -m 'not slow' -n 4 --dist loadgroup
	$(BIN)/python -m pytest -q tests/walk

test-again: $(READY) ## what failed in the last "make test", one by one, and what came after it
	$(BIN)/python -m pytest -q --last-failed --last-failed-no-failures none tests || test $$? -eq 5
	$(BIN)/python -m pytest -q tests/walk

test-all: $(READY) ## all tests
	$(BIN)/python -m pytest -q --ignore tests/walk -n 3 --dist loadgroup
	$(BIN)/python -m pytest -q tests/walk
	$(BIN)/python -m pytest -q tests/orchestrator/walk.py

check: $(READY) ## format, lint, types, and the arrows between the rooms
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -q tests/unit/test_rooms.py

walk: $(READY) ## every sample over every scenario (fourteen hundred drills), TIMES times (1), with the cores overloaded four times over
	$(BIN)/python -m pytest tests/walk --walk-all --walk-load --walk-jobs 12 --walk-times $(TIMES)

walk-orchestrator: $(READY) ## the orchestrator over every scenario, and each of its half measures, TIMES times (1), overloaded in the same way
	$(BIN)/python -m pytest tests/orchestrator/walk.py --orchestrator-load --orchestrator-times $(TIMES)

bench: $(READY) ## the measurements, each beside what it is compared with
	$(BIN)/python -m benchmarks

docs: $(READY) ## build the documentation into docs/_build, with every warning an error
	$(BIN)/python docs/made_pages.py
	$(BIN)/python docs/shown_files.py
	$(BIN)/python -m sphinx -W --keep-going -n -q docs docs/_build

docs-pictures: $(READY) ## drill a broken sample and take the documentation's pictures of its report (Chromium, a minute)
	$(BIN)/python docs/take_pictures.py
	$(BIN)/python docs/shown_files.py

measure-agents: $(READY) ## install four agent command lines from npm, try them offline, and write docs/measured/agents.md (20 minutes)
	$(BIN)/python -m benchmarks.measure_agents

measure-terminators: $(READY) ## drill the terminators and launchers that people use, and write docs/measured/terminators.md
	$(BIN)/python benchmarks/measure_terminators.py

measure-cleaning: $(READY) ## drill ways to clean a killed run's workspace, and write docs/measured/cleaning.md (half a minute)
	$(BIN)/python benchmarks/measure_cleaning.py

measure-temporal: $(READY) ## drill activities under a real Temporal server, and write docs/measured/temporal.md (four minutes)
	$(BIN)/python benchmarks/measure_temporal.py

clean: ## remove what the other commands made
	rm -rf $(VENV) docs/_build .cancelcontract .terminators .pytest_cache .mypy_cache .ruff_cache .hypothesis .walk
