# Every target does its own set-up. `make` alone lists them.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup python postgres demo test test-full test-kafka crash-matrix mutants audit-score docs-rules docs-api lint types imports format bench bench-peers lock lock-peers clean

BIN := .venv/bin
SPARK := scripts/with-spark

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' Makefile

setup: ## virtual environment, locked packages, Java, jars; does nothing when all is there
	@scripts/setup

# Enough for what needs no Spark.
python:
	@scripts/setup-python

# A server that tests and benchmarks start for themselves; the demo needs none.
postgres:
	@scripts/setup-postgres

demo: setup ## the shop: run a day, run it again, kill it, and compare with the unsafe version
	@$(SPARK) $(BIN)/python -m examples.shop.demo

test: setup postgres lint types imports ## lint, types, import contracts, then the tests (20 minutes on two cores)
	@scripts/run-tests

test-full: setup postgres lint types imports ## every test: all stores, the crash matrix, Spark's defaults, state on disk
	@$(SPARK) $(BIN)/python -m tests.support.kafka
	@scripts/run-tests full

test-kafka: setup ## streams and messages on a real Kafka broker
	@$(SPARK) $(BIN)/python -m tests.support.kafka
	@TWICE_TESTS=full $(SPARK) $(BIN)/python -m pytest -v tests/streams/test_kafka.py tests/effects/test_kafka.py

crash-matrix: setup postgres ## kill every store at every point, by signal and by system call; ends with one JSON line
	@scripts/crash-matrix

mutants: setup postgres ## who finds which mutant of the shop, and what healthy pipelines pass; ends with one JSON line
	@$(SPARK) $(BIN)/python -u -m tests.mutants

audit-score: python ## precision and recall of `twice audit` over the labelled jobs; ends with one JSON line
	@$(BIN)/python tests/audit/score.py

docs-rules: python ## write docs/rules from the audit's rules and their cases
	@$(BIN)/python tests/audit/rule_docs.py

docs-api: python ## write docs/api.md from the docstrings of what twice exports
	@$(BIN)/python tests/api_docs.py

lint: python ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: python ## mypy, strict, on src
	$(BIN)/mypy

imports: python ## import-linter: who may import whom
	$(BIN)/lint-imports --no-logo

format: python ## ruff: format and apply the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup postgres ## all benchmarks, one after the other; each ends with one JSON line
	@set -e; for file in bench/[a-z]*.py; do echo "== $$file"; $(SPARK) $(BIN)/python "$$file"; done

bench-%: setup postgres ## one benchmark: make bench-overhead
	@$(SPARK) $(BIN)/python bench/$*.py

bench-peers: setup postgres ## SQLMesh, dbt and Spark Declarative Pipelines beside twice, each in an environment of its own
	@scripts/setup-peers
	@$(SPARK) $(BIN)/python bench/peers.py

# The oldest Python that we support decides; the markers in the file carry the differences.
lock: python ## resolve the development dependencies anew into requirements-dev.lock
	UV_PYTHON_DOWNLOADS=never $(BIN)/uv pip compile --universal --generate-hashes --no-emit-index-url \
		--no-annotate --python-version 3.10 --upgrade --quiet --custom-compile-command "make lock" \
		--group dev --output-file requirements-dev.lock pyproject.toml

lock-peers: python ## resolve what bench/peers/*.in name into the .txt files beside them
	@set -e; for file in bench/peers/*.in; do UV_PYTHON_DOWNLOADS=never $(BIN)/uv pip compile --universal \
		--no-emit-index-url --no-annotate --python-version 3.10 --upgrade --quiet \
		--custom-compile-command "make lock-peers" --output-file "$${file%.in}.txt" "$$file"; done

clean: ## remove the virtual environment, caches and build results
	rm -rf .venv .venv-peers .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	rm -rf spark-warehouse metastore_db derby.log
	find src tests examples bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
