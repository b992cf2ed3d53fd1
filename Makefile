# Needs make and Python 3.11 or newer, nothing else: no recipe calls a program that is not Python, /bin/sh or in .venv.

PYTHON ?= python3
ARGS ?=

BOOTSTRAP = $(PYTHON) harness/bootstrap.py

.PHONY: help demo test lint bench bench-record bench-tap bench-import bench-check bench-report detection lock schema clean
.DEFAULT_GOAL := help

define HELP
Tidegauge finds out whether a Kafka-protocol broker keeps its promises while things break.

  make demo     start here: a real three-node Kafka cluster, put to the test
  make test     all tests; those that need Docker are skipped without it
                  make test ARGS="tests/unit -x"     some of them
  make lint     what the code has to pass: ruff (rules and format), mypy (strict), layers of imports
  make bench    how fast clusters start and end, each kind in turn
  make bench-record
                what recording costs: both clients bare and recorded, and the recorder alone
  make bench-tap
                what the tap costs: rates and latencies, direct and through it
  make bench-import
                what the import of a foreign history costs: time and memory, for a million operations
  make bench-check
                what checks cost, for histories of up to 50 million events, beside DuckDB (an hour)
                  make bench-check ARGS="--sizes 100k,1M"
  make bench-report
                what the report of 10 million events costs: seconds, and bytes of the page
  make detection
                whether each check finds the bug it is for: every broken broker, and correct ones (an hour or two)
                  make detection ARGS=--again        check the stored runs anew
  make lock     pin the dependencies and Kafka's archives anew
                  make lock ARGS=--upgrade           take newer versions of the dependencies
  make schema   rewrite what is made from the code: the JSON schemas, docs/anomalies.md, the tree in docs/design.md
  make clean    remove .venv

The first one makes .venv (a minute or two, 620 MB to download, 1.1 GB on disk); after that it is there at once.
Another Python than python3: make demo PYTHON=python3.12
The command itself, with all it can do: .venv/bin/tidegauge --help
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

lock:
	@$(BOOTSTRAP)
	.venv/bin/python -m uv pip compile pyproject.toml --group dev --group build --extra connect --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	    --system-certs --quiet --output-file requirements.lock $(ARGS)
	.venv/bin/python -m harness.clusters.lock_jars

clean:
	@$(PYTHON) -c "import shutil; shutil.rmtree('.venv', ignore_errors=True)"
