# Everything a clone needs: `make help` lists the targets. Works with GNU make 3.81 and a POSIX shell.

SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
ROUNDS ?= 10
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-verify demo-kafka quick test features figures soak reference pictures outcomes plans bench-check bench-lag bench-kafka docs lock compat clean force

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## create .venv with everything locked in requirements/

# The stamp holds the folder it was made in: a moved clone has a broken .venv and sets up again.
ifneq ($(shell cat $(READY) 2>/dev/null),$(CURDIR))
$(READY): force
endif
$(READY): pyproject.toml requirements/uv.lock requirements/dev.lock scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh "$(CURDIR)"

demo: setup ## run the demonstration (ARGS="…" is handed on)
	@$(PY) demo/run.py $(ARGS)

demo-verify: setup ## compare what the demo wrote with the batch result over the same input
	@$(PY) demo/verify.py

demo-kafka: setup ## ad impressions and clicks through a real Kafka broker, and what was set aside
	@$(PY) -m demo.kafka.run $(ARGS)

quick: setup ## the checks that need no JVM, in under a minute
	@$(PY) -m scripts.gate --quick

test: setup ## the whole gate: style, types, import contracts, every test
	@$(PY) -m scripts.gate

features: setup ## the contract's rows with their state in the last test run
	@$(PY) -m scripts.features

figures: setup ## files, lines, and the modules that a command passes (ARGS=--no-walks)
	@$(PY) -m scripts.figures $(ARGS)

soak: setup ## tests/faults again and again (ROUNDS=10), then what the gate has no time for
	@$(PY) -m scripts.soak $(ROUNDS)

reference: setup ## write the generated pages of the docs again
	@$(PY) -m scripts.reference

pictures: setup ## draw the pictures of the docs again, from the tests of the examples and a real terminal (tmux)
	@$(PY) -m scripts.pictures
	@$(PY) -m scripts.terminal

outcomes: setup ## start what is new in the checker's matrix for real and record it (ARGS=--all: every case)
	@$(PY) -m scripts.outcomes $(ARGS)

plans: setup ## record the plans anew on which facts are tested
	@$(PY) -m scripts.plans

bench-check: setup ## how fast the offline check is beside spark-pipelines dry-run (ARGS=ROUNDS)
	@$(PY) bench/offline_check.py $(ARGS)

bench-lag: setup ## how far progress is behind the commits on a busy machine (ARGS=SECONDS)
	@$(PY) bench/progress_lag.py $(ARGS)

bench-kafka: setup ## what Headwater costs on Kafka beside PySpark by hand (ARGS=ROUNDS)
	@$(PY) bench/kafka_layer.py $(ARGS)

docs: setup ## build the documentation into site/
	@$(PY) -m zensical build --clean --strict

lock: setup ## compile the locks again (ARGS=--upgrade takes newer versions)
	@$(PY) -m scripts.lock $(ARGS)

compat: setup ## the tests with another PySpark: SPARK=4.2.1 (ARGS="tests/unit …" runs a part)
	@$(PY) -m scripts.compat $(SPARK) $(ARGS)

clean: ## remove what was built (.venv stays)
	rm -rf build dist site spark-warehouse metastore_db derby.log
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .cache
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
