# Needs only make and Python 3.11 or newer: recipes call Python, /bin/sh and programs in .venv.

PYTHON ?= python3
ARGS ?=

BOOTSTRAP = $(PYTHON) harness/bootstrap.py

.PHONY: help demo test lint bench bench-record bench-tap bench-import bench-check bench-report detection lock schema clean
.DEFAULT_GOAL := help

define HELP
Tidegauge tests whether a Kafka-protocol broker keeps its promises under faults.

  make demo     start here: test a real three-node Kafka cluster
  make test     run all tests; those that need Docker are skipped without it
                  make test ARGS="tests/unit -x"     run some of them
  make lint     ruff (rules and format), mypy (strict), import layers
  make schema   regenerate what is made from the code: JSON schemas, docs/anomalies.md, screens, the tree in docs/design.md
  make lock     pin dependencies and Kafka's archives again
                  make lock ARGS=--upgrade           with newer versions of the dependencies
  make clean    remove .venv

  make detection
                run every broken broker and correct brokers: does each check find its bug? (an hour or two)
                  make detection ARGS=--again        check the stored runs again
  make bench    how fast clusters start and stop, for each kind
  make bench-record
                cost of recording: both clients bare and recorded, and the recorder by itself
  make bench-tap
                cost of the tap: rates and latencies, with and without it
  make bench-import
                cost of an import: time and memory for a million operations
  make bench-check
                cost of checks, for histories of up to 50 million events, next to DuckDB (an hour)
                  make bench-check ARGS="--sizes 100k,1M"
  make bench-report
                cost of a report of 10 million events: seconds, and size of the page

The first run creates .venv (one to three minutes, 620 MB to download, 1.1 GB on disk); later runs start at once.
To use another Python than python3: make demo PYTHON=python3.12
The command itself: .venv/bin/tidegauge --help
endef

help:
	$(info $(HELP))
	@:

demo:
	@$(BOOTSTRAP)
	@.venv/bin/tidegauge demo $(ARGS)

test:
	@$(BOOTSTRAP)
	@unset PYTHONDONTWRITEBYTECODE; .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lint:
	@$(BOOTSTRAP)
	.venv/bin/python -m ruff check
	.venv/bin/python -m ruff format --check
	.venv/bin/python -m mypy
	.venv/bin/lint-imports

bench:
	@$(BOOTSTRAP)
	@.venv/bin/python -m bench

bench-record:
	@$(BOOTSTRAP)
	@.venv/bin/python -m bench.record $(ARGS)

bench-tap:
	@$(BOOTSTRAP)
	@.venv/bin/python -m bench.tap $(ARGS)

bench-import:
	@$(BOOTSTRAP)
	@.venv/bin/python -m bench.foreign $(ARGS)

bench-check:
	@$(BOOTSTRAP)
	@.venv/bin/python -m bench.check $(ARGS)

bench-report:
	@$(BOOTSTRAP)
	@.venv/bin/python -m bench.report $(ARGS)

detection:
	@$(BOOTSTRAP)
	@.venv/bin/python -m bench.detection $(ARGS)

schema:
	@$(BOOTSTRAP)
	@.venv/bin/python -m harness.runs.scenario_schema
	@.venv/bin/python -m harness.report.schema
	@.venv/bin/python -m harness.report.catalogue
	@.venv/bin/python -m tests.support.design_tree
	@.venv/bin/python -m tests.support.output_screens

lock:
	@$(BOOTSTRAP)
	.venv/bin/python -m uv pip compile pyproject.toml --group dev --group build --extra connect --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --system-certs --quiet --output-file requirements.lock $(ARGS)
	.venv/bin/python -m harness.clusters.lock_jars

clean:
	@$(PYTHON) -c "import shutil; shutil.rmtree('.venv', ignore_errors=True)"
