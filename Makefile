# Every recipe works from a fresh clone: it makes .venv first when there is none, and again when pyproject.toml or
# PYTHON changes. Needed beforehand: make, Python 3.11 or newer, and the package registry.

PYTHON ?= python3
PYTEST_ARGS ?= --numprocesses=auto --dist=worksteal
BENCH_ARGS ?=
MUTANTS_ARGS ?=

# Hundreds of processes import the same modules: each module is compiled once, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PARTS := merkle indexes journal cli
STAMP := $(VENV)/.made-with-$(subst /,_,$(PYTHON))
LINKS := $(PARTS:%=build/dev/sealbook/%)
PEERS := build/peers
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Runs one program, shows what it printed only if it failed.
QUIETLY := tools/quietly

.PHONY: help demo quick test interop check format lint types contracts wheel dev bench mutants clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo      kill an agent in the middle of an effect, take over, prove, tamper, find it'
	@echo 'make quick     the tests that neither take seconds, nor start processes, nor write to a disk: under a minute'
	@echo 'make test      the test suite; make test PYTEST_ARGS="tests/merkle -x" hands its arguments to pytest'
	@echo 'make check     what CI runs: format, lint, types, import contracts, the suite on the wheel, every Python here'
	@echo 'make format    let ruff format and fix'
	@echo 'make interop   install other implementations of the log, for tests/interop to meet; what is missing is skipped'
	@echo 'make dev       .venv with Sealbook installed from this folder, and the links that mypy and editors read'
	@echo 'make bench     speed and size, each beside the floor of the same run (BENCH_ARGS=...)'
	@echo 'make mutants   break each guarantee on purpose: its test must then fail (MUTANTS_ARGS=...)'
	@echo 'make clean     remove whatever these recipes made'
	@echo 'PYTHON=...     the interpreter to build .venv with, python3 unless given'

demo: $(STAMP)
	@$(BIN)/sealbook demo

quick: dev
	@SEALBOOK_TEST_INSTALL=checkout $(BIN)/python -P -m pytest -q --numprocesses=2 --dist=worksteal -m "not slow and not process"

test: dev
	@SEALBOOK_TEST_INSTALL=checkout $(BIN)/python -P -m pytest $(PYTEST_ARGS)

check: lint types contracts wheel
	@echo 'make check: all green'

lint: dev
	@$(QUIETLY) $(BIN)/ruff format --check .
	@$(QUIETLY) $(BIN)/ruff check .

types: dev
	@$(QUIETLY) $(BIN)/mypy

contracts: dev
	@$(QUIETLY) $(BIN)/lint-imports

# The wheel is built from the sdist, in a fresh folder, so that nothing of an earlier build can slip into it.
wheel: dev
	@rm -rf build/dist
	@$(QUIETLY) $(BIN)/python -m build --outdir build/dist .
	@$(QUIETLY) $(BIN)/check-wheel-contents build/dist
	@$(BIN)/python tools/test_wheel.py build/dist

format: dev
	@$(BIN)/ruff check --quiet --fix . || true
	@$(BIN)/ruff format --quiet .

dev: $(STAMP) $(LINKS)

interop: dev
	@$(BIN)/python tools/interop.py

bench: dev $(PEERS)
	@$(BIN)/python benchmarks/run.py $(BENCH_ARGS)

mutants: dev
	@$(BIN)/python tools/mutants.py $(MUTANTS_ARGS)

clean:
	@rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Some distributions ship Python without ensurepip; their own pip can still fill the environment.
$(STAMP): pyproject.toml setup.py program/__main__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Sealbook needs Python 3.11 or newer, and '$(PYTHON)' is not: name another one, as in make test PYTHON=python3.12" >&2; \
	  exit 1; }
	@echo 'making $(VENV) with $(PYTHON)'
	@$(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 \
	  || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
	       && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; } >/dev/null 2>&1 \
	  || { echo "'$(PYTHON) -m venv' failed: on Debian and Ubuntu, apt-get install python3-venv, or name another PYTHON=" >&2; \
	       exit 1; }
	@$(QUIETLY) $(PIP_INSTALL) --upgrade 'pip>=25.1'
	@$(QUIETLY) $(PIP_INSTALL) --editable . --group dev
	@purelib=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	  && mkdir -p "$$purelib/sealbook" && cp program/__main__.py "$$purelib/sealbook/"
	@touch $@

# Who the benchmarks are measured beside. They stay out of .venv, where the tests would load their plugins; without them
# the benchmarks run too, and say whom they leave out.
$(PEERS): pyproject.toml | $(STAMP)
	@rm -rf $@ $@.new
	@$(QUIETLY) $(PIP_INSTALL) --target $@.new --group bench && mv $@.new $@ && touch $@ \
	  || echo 'no peers could be installed: they are left out' >&2

build/dev/sealbook/%:
	@mkdir -p $(@D)
	@ln -sfn ../../../$* $@
