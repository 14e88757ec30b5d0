# Each target works in a fresh clone and needs only Python 3.11 or newer with pip. It first brings .venv up to date, which takes
# a moment if nothing changed. ARGS are passed on: make test ARGS="-k varint -x". TESTS selects folders: make test TESTS=tests/cli

PYTHON ?= python3
ARGS ?=
TESTS ?= tests
SECONDS ?= 60

# The tests start Python several hundred times. Without bytecode, each start compiles the package again.
export PYTHONDONTWRITEBYTECODE =

# If the machine has no Java, `make setup` installs one for Spark.
FETCHED_JAVA = $(if $(shell test -x .venv/jdk/bin/java && echo yes),JAVA_HOME="$(CURDIR)/.venv/jdk")
RUN = $(FETCHED_JAVA) .venv/bin/python

.PHONY: help setup setup-all setup-wheel demo test test-slow test-full test-pure fuzz lint stubs docs bench wheel dist clean

help:            ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile | expand -t 18

setup:           ## create or update .venv: packages for `make demo` and `make test`, the native core, a Java for Spark
setup setup-all setup-wheel:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found: install Python 3.11 or newer, or run make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) scripts/setup_dev.py $(GROUP)
setup: GROUP = test
setup-wheel: GROUP = build
setup-all: GROUP = dev
setup-all:       ## also install what all other targets need: peers, type checkers, emulators, the documentation's tools

demo: setup      ## export log directories that real brokers wrote to Parquet, on Spark
	$(RUN) examples/demo.py $(ARGS)

test: setup      ## run the tests, about 6 minutes on two cores
	$(RUN) -m pytest $(TESTS) -m "not slow" -n 2 --dist worksteal $(ARGS)

test-slow: setup-all ## run the tests that `make test` leaves out: Java, Spark, brokers, builds, whole logs on the pure core
	$(RUN) -m pytest $(TESTS) -m "slow and not full" $(ARGS)

test-full: setup-all ## run all tests, the very long ones included
	$(RUN) -m pytest $(TESTS) -m "" $(ARGS)

test-pure: setup-all ## run the tests with the pure core only, as on a machine without a compiler
	CI= KAFKAFMT_BACKEND=pure $(RUN) -m pytest $(TESTS) $(ARGS)

fuzz: setup-all      ## run every fuzz target for SECONDS (60) on a core with ASAN and UBSAN
	cd tests && ../.venv/bin/python -m fuzz.sanitized --seconds $(SECONDS) $(ARGS)

lint: setup-all      ## check style and types
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	MYPYPATH=benchmarks:benchmarks/java .venv/bin/mypy benchmarks

stubs: setup-all     ## write the types of the wire protocol's messages, from their schemas
	$(RUN) scripts/make_stubs.py

docs: setup-all      ## build the documentation site in site/
	NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict --clean $(ARGS)

bench: setup-all     ## run the benchmarks
	$(RUN) -m pytest benchmarks --benchmark-only $(ARGS)

wheel: setup-wheel ## build a manylinux wheel for this Python and a wheel without native code, in wheelhouse/
	.venv-build/bin/python scripts/build_wheel.py

dist: setup-wheel ## build the sdist and the wheel without native code, in dist/
	.venv-build/bin/python scripts/build_wheel.py --portable dist

clean:           ## remove build results; .venv and the data in .bench remain
	rm -rf tests/golden/*/*/ build dist site *.egg-info kafkafmt/_core.c kafkafmt/_core.*.so wheelhouse/*.whl
	rm -rf .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache spark-warehouse
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
