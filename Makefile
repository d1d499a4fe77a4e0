.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DEMO_DATA ?= .demo

help:  ## What can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: $(STAMP)  ## Create .venv and install everything

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Gramian needs Python 3.11 or newer")'
	@echo 'Setting up .venv: the first time takes some minutes, mostly for torch.'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(STAMP)  ## Analyse real weights (all-MiniLM-L6-v2) through the real service
	@$(BIN)/gramian analyze "$$($(BIN)/python -m benchmarks.real_weights)" --data-dir $(DEMO_DATA)

test: $(STAMP)  ## Run every test, on SQLite and on a real PostgreSQL
	$(BIN)/python -m pytest -n 2 --dist loadgroup

unit: $(STAMP)  ## Run the tests that start no server
	$(BIN)/python -m pytest -n 2 -m 'not e2e'

check: $(STAMP)  ## Lint, format, types, architecture, OpenAPI drift
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/gramian openapi | diff -u openapi/openapi.json - || { echo 'openapi/openapi.json is stale: make openapi'; exit 1; }

openapi: $(STAMP)  ## Write openapi/openapi.json from the code
	$(BIN)/gramian openapi > openapi/openapi.json.new && mv openapi/openapi.json.new openapi/openapi.json

format: $(STAMP)  ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

JOBS ?= 2000
KILLS ?= 100
SEED ?= 1
WRITE ?=

chaos: $(STAMP)  ## Kill everything at random while jobs run (JOBS, KILLS, SEED; WRITE=1 keeps the table)
	$(BIN)/python -m tests.chaos --jobs $(JOBS) --kills $(KILLS) --seed $(SEED) $(if $(WRITE),--write)

bench: $(STAMP)  ## Measure against the naive and the published way
	$(BIN)/python -m benchmarks.main

bench-toy: $(STAMP)  ## Measure a training step of the toy model against the published way
	$(BIN)/python -m benchmarks.toy_step

superposition: $(STAMP)  ## Train the toy model for docs/superposition.md (an hour; goes on where it was stopped)
	$(BIN)/python -m benchmarks.superposition

real: $(STAMP)  ## Measure real matrices from PyPI packages for docs/real_matrices.md
	$(BIN)/python -m benchmarks.real_matrices

bench-queue: $(STAMP)  ## Measure whether 10,000 waiting jobs slow anything down
	$(BIN)/python -m benchmarks.queue_depth

packings: $(STAMP)  ## Optimise the packings of docs/packings.md again (under an hour, can be interrupted)
	$(BIN)/python -m benchmarks.packings

clean:  ## Remove the virtual environment and the demo's data
	rm -rf .venv $(DEMO_DATA)

.PHONY: help setup demo test unit check openapi format chaos bench bench-toy bench-queue superposition packings real clean
