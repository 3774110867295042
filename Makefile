# `make demo` and `make test` need nothing but Python 3.11 and make: each sets up its own .venv first.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
REPORT ?= report.html

.DEFAULT_GOAL := help
.PHONY: help setup test lint demo clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv with everything that the tests and the demo need

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

test: $(READY)  ## run the tests
	$(BIN)/python -m pytest

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

demo: $(READY)  ## three devices learn sounds together [DATA=folder NEW=a,b JSON=file REPORT=report.html]
	$(BIN)/python -m benchmarks.demo --report '$(REPORT)' $(if $(DATA),--data '$(DATA)') \
		$(if $(NEW),--new '$(NEW)') $(if $(JSON),--json '$(JSON)')

clean:  ## remove what the build made (keeps .venv)
	rm -rf build .pytest_cache .mypy_cache .ruff_cache
