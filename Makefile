# Everything a contributor runs. `make` alone lists the targets.
#
# Only Python 3.11+ and Java 17+ are expected on the machine; the rest goes into .venv.

VENV   := .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed
# The first one that is new enough; override with `make PYTHON=/path/to/python install`.
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,\
	$(shell $(name) -c 'import sys; print(sys.executable if sys.version_info >= (3, 11) else "")' 2>/dev/null)))
# One Spark JVM per worker, so more workers than cores only cost memory.
JOBS   ?= 2
# What `make bench` runs: every file that asks a question, or e.g. `make bench BENCHES=scan_cost`.
BENCHES ?= $(filter-out common cdc_common cdc_debezium source_common nexmark_flink tpch_rows,$(basename $(notdir $(wildcard bench/[a-z]*.py))))

.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

# Runs the rest of the line with all temporary files (Python's, Spark's and the JVM's) in a folder that goes away.
IN_SCRATCH = scratch=$$(mktemp -d) && trap 'rm -rf "$$scratch"' EXIT && \
	export TMPDIR=$$scratch SPARK_LOCAL_DIRS=$$scratch SPARK_SUBMIT_OPTS="-Djava.io.tmpdir=$$scratch" &&

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: install
install: $(STAMP) ## Create .venv with Headrace and all that its tests need

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Headrace needs Python 3.11 or newer; install it, e.g. \`apt install python3 python3-venv\`, or say where it is: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot create virtual environments; install venv, e.g. \`apt install python3-venv\`" >&2; exit 1; }
	@echo "installing into $(VENV) (Spark is about 450 MB; once only)"
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

# Before the download, because without Java nothing below works. headrace.engine.java checks the version as well.
.PHONY: java
java:
	@[ -n "$${JAVA_HOME:-}" ] || command -v java >/dev/null || { echo "Headrace needs Java 17 or newer; install OpenJDK 17, e.g. \`apt install openjdk-17-jre-headless\`, or set JAVA_HOME" >&2; exit 1; }

.PHONY: demo
demo: java $(STAMP) ## Watch views fill on a live table, pull the plug, and verify that all is right (about a minute)
	@$(VENV)/bin/headrace demo $(ARGS)

.PHONY: demo-cdc
demo-cdc: java $(STAMP) ## Watch a table of a live PostgreSQL become one here, through a kill -9 (needs its server installed)
	@$(VENV)/bin/headrace demo-cdc $(ARGS)

.PHONY: demo-kafka
demo-kafka: java $(STAMP) ## Watch views come on a live Kafka topic, through a kill -9 (its broker is fetched by Maven)
	@$(VENV)/bin/headrace demo-kafka $(ARGS)

.PHONY: test
test: java $(STAMP) services lint ## Lint, then run all tests
	@$(IN_SCRATCH) $(PY) -m pytest -n $(JOBS) --dist loadgroup $(ARGS)

.PHONY: services
services: ## Install the servers and clients that the tests use, where that is possible and they are missing
	@tools/services

.PHONY: unit
unit: $(STAMP) ## Run the tests that need no JVM (a minute at most)
	@$(PY) -m pytest headrace tests/unit tests/backfill tests/sources $(ARGS)

.PHONY: lint
lint: $(STAMP) ## Check style and formatting
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .

.PHONY: format
format: $(STAMP) ## Fix style and formatting
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

.PHONY: bench
bench: java $(STAMP) ## Run the benchmarks; each prints a ratio
	@$(IN_SCRATCH) for name in $(BENCHES); do echo "== $$name"; $(PY) -m bench.$$name; done

.PHONY: slt-update
slt-update: java $(STAMP) ## Rewrite what tests/slt/*.slt expect with what the engine answers; review the diff
	@$(IN_SCRATCH) $(PY) -m tests.slt.runner --update $(ARGS)

.PHONY: traces-update
traces-update: java $(STAMP) ## Rewrite what *.trace in tests/backfill and tests/engine expect with what happens; review the diff
	@$(PY) -m tests.backfill.script --update
	@$(IN_SCRATCH) $(PY) -m tests.engine.trace_script --update

.PHONY: clean
clean: ## Remove everything that the other targets made
	@rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist spark-warehouse *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
