# Each target works alone, from nothing: all it needs is Python 3.11 or newer with pip. Every one first brings .venv up to date,
# which takes a moment when nothing changed. ARGS are handed on: make test ARGS="-k varint -x"

PYTHON ?= python3
ARGS ?=
SECONDS ?= 60

# Where the machine has no Java, `make setup` fetched one for Spark.
FETCHED_JAVA = $(if $(shell test -x .venv/jdk/bin/java && echo yes),JAVA_HOME="$(CURDIR)/.venv/jdk")
RUN = $(FETCHED_JAVA) .venv/bin/python

.PHONY: help setup demo test test-full fuzz lint stubs bench wheel clean

help:            ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile | expand -t 18

setup:           ## .venv with all that development needs, the native core, a Java for Spark
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON): install Python 3.11 or newer, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) scripts/setup_dev.py

demo: setup      ## log directories that real brokers wrote become Parquet on Spark
	$(RUN) examples/demo.py $(ARGS)

test: setup      ## the tests, on both cores
	$(RUN) -m pytest tests $(ARGS)

test-full: setup ## the same and the long ones
	$(RUN) -m pytest tests -m "" $(ARGS)

fuzz: setup      ## every fuzz target for SECONDS (60) on a core with ASAN and UBSAN
	cd tests && ../.venv/bin/python -m fuzz.sanitized --seconds $(SECONDS) $(ARGS)

lint: setup      ## style and types
	.venv/bin/ruff check .
	.venv/bin/mypy

stubs: setup     ## the types of the wire protocol's messages, from their schemas
	$(RUN) scripts/make_stubs.py

bench: setup     ## the measurements
	$(RUN) -m pytest benchmarks --benchmark-only $(ARGS)

wheel: setup     ## a manylinux wheel for this Python and one without native code for any, in wheelhouse/
	$(RUN) scripts/build_wheel.py

clean:           ## removes what was built; .venv and the data of .bench stay
	rm -rf build dist *.egg-info kafkafmt/_core.c kafkafmt/_core.*.so wheelhouse/*.whl
	rm -rf .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
