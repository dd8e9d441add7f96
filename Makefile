# Everything a newcomer needs; each target does its own set-up. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/peers
WORKERS ?= auto

.PHONY: help setup lint format test test-containers bench simulate demo docs constraints clean

help: ## Show the targets.
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(READY) ## Make .venv and install everything from the pinned constraints.

# The mark says where the environment was made: in a folder that was moved or renamed since it is worth nothing.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
.PHONY: $(READY)
endif
$(READY): pyproject.toml constraints.txt tools/setup
	@PYTHON="$(PYTHON)" tools/setup $(VENV)
	@printf '%s\n' "$(CURDIR)" > $(READY)

lint: $(READY) ## Check style and types (code and tests).
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY) ## Rewrite the code in the house format.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(READY) ## Run all tests that need no container engine.
	@$(BIN)/python -m tests.simulation --first
	$(BIN)/pytest --numprocesses $(WORKERS) --ignore tests/containers

test-containers: $(READY) ## Run the bus contract on containerised NATS, one node and three.
	@$(BIN)/python -m tests.containers

bench: $(READY) ## Measure ratios against nats-py and other systems; writes bench/latest.json.
	@$(MAKE) --silent --no-print-directory $(PEERS)/.ready || echo "The peers cannot be installed: going on without them." >&2
	$(BIN)/python -m bench

# Apart from $(VENV): what the peers bring along, plugins of pytest among it, has no place beside our tests.
$(PEERS)/.ready: pyproject.toml constraints.txt | $(READY)
	@$(BIN)/python -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	@touch $@

SEEDS ?= 1000
simulate: $(READY) ## Play a company from many seeds: SEEDS=1000, SEED=the first one (default: by the date).
	@$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(if $(SEED),--seed $(SEED))

demo: $(READY) ## Watch a company bear a kill -9 and an outage, with stand-ins for its agents; takes 15 seconds.
	@tools/demo $(BIN)

docs: $(READY) ## Rewrite the pages of docs/ that come from the code.
	$(BIN)/python -m tools.pages

constraints: $(READY) $(PEERS)/.ready ## Pin the versions that are installed now.
	@{ head -n 1 constraints.txt; for each in $(BIN) $(PEERS)/bin; do $(BIN)/uv pip freeze --python $$each/python --exclude-editable; done \
		| grep -vE '^(pip|setuptools)==|^callboard @' | LC_ALL=C sort --field-separator== --key=1,1 --unique; } > constraints.new
	@mv constraints.new constraints.txt

clean: ## Remove the virtual environment and caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
