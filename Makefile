# Everything a clone needs: `make help` lists the targets. Works with GNU make 3.81 and a POSIX shell.

SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
ROUNDS ?= 10
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-verify demo-kafka quick test features figures soak reference pictures outcomes plans bench docs lock compat clean force

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## create .venv with everything locked in requirements/

# The stamp contains the directory of the clone: a moved clone has a broken .venv and needs a new one.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
$(READY): force
endif
$(READY): pyproject.toml requirements/uv.lock requirements/dev.lock scripts/setup.sh scripts/jar.py $(wildcard src/java/*/*/*.java)
	@PYTHON="$(PYTHON)" sh scripts/setup.sh "$(CURDIR)"

demo: setup ## run the demo (ARGS="…" passes options to headwater run)
	@$(PY) demo/run.py $(ARGS)

demo-verify: setup ## compare the output of the demo with a batch job over the same input
	@$(PY) demo/verify.py

demo-kafka: setup ## join ad impressions and clicks from a local Kafka broker, with malformed messages in quarantine
	@$(PY) -m demo.kafka.run $(ARGS)

quick: setup ## run the checks and tests that need no JVM (under a minute)
	@$(PY) -m scripts.gate --quick

test: setup ## run the whole gate: style, types, import contracts, every test
	@$(PY) -m scripts.gate

features: setup ## list the feature contract with the results of the last test run
	@$(PY) -m scripts.features

figures: setup ## count files, lines, and the modules that each command uses (ARGS=--no-walks)
	@$(PY) -m scripts.figures $(ARGS)

soak: setup ## repeat tests/faults (ROUNDS=10), then run the tests that are too slow for the gate
	@$(PY) -m scripts.soak $(ROUNDS)

reference: setup ## generate the reference pages of the docs
	@$(PY) -m scripts.reference

pictures: setup ## draw the pictures of the docs from the tests of the examples and a real terminal (tmux)
	@$(PY) -m scripts.pictures
	@$(PY) -m scripts.terminal

outcomes: setup ## run new cases of the check matrix on Spark and record the results (ARGS=--all: every case)
	@$(PY) -m scripts.outcomes $(ARGS)

plans: setup ## record the plans that the tests of query facts use
	@$(PY) -m scripts.plans

bench: setup ## run every benchmark; make bench-NAME runs one (ARGS="--quick", "--rounds 3", "--list")
	@$(PY) -m bench $(ARGS)

bench-%: setup
	@$(PY) -m bench $* $(ARGS)

docs: setup ## build the documentation into site/
	@$(PY) -m zensical build --clean --strict

lock: setup ## compile the lock files (ARGS=--upgrade: newer versions)
	@$(PY) -m scripts.lock $(ARGS)

compat: setup ## run the tests with another PySpark: SPARK=4.2.1 (ARGS="tests/unit …": some of them)
	@$(PY) -m scripts.compat $(SPARK) $(ARGS)

clean: ## remove build output (keeps .venv)
	rm -rf build dist site spark-warehouse metastore_db derby.log
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .cache
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
