# `make demo` and `make test` need nothing but Python 3.11 and make: each sets up an environment of its own first.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
LIGHT := $(VENV)/.light
READY := $(VENV)/.ready
REPORT ?= report.html
WORKERS ?= 3

# Tests start hundreds of programs, and each would compile all that it imports.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup test test-all coverage lint demo site bundles experiments soak bench-pi armv7-root test-armv7 test-arm64 test-home-assistant deb release home-assistant clean install-edge install-aggregator uninstall-edge uninstall-aggregator

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## create .venv with all that tests, lint and bundles need, TensorFlow too

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

$(LIGHT): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[test]'
	@touch $@

$(READY): $(LIGHT)
	$(INSTALL) '.[dev]'
	@touch $@

# In the order of tests/conftest.py; xdist's own begins with the modules of the most tests.
TESTS := --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(LIGHT)  ## minutes: what is fast, and a journey of each kind; no TensorFlow, browser or system package
	$(BIN)/python -m pytest $(TESTS) --part light

test-all: $(READY)  ## all other tests, half an hour; those whose system package is missing are skipped with the reason
	$(BIN)/python -m pytest $(TESTS) --part rest

PACKAGES := edge_client aggregator_server fleet_protocol model_export fleet_simulator benchmarks studies demo

coverage: $(READY)  ## lines and branches that the tests reach, in percent [PART=tests/folder]
	@rm -rf build/coverage && mkdir -p build/coverage
	status=0; $(BIN)/coverage run -m pytest $(TESTS) $(PART) || status=$$?; \
	$(BIN)/coverage combine --quiet && \
	for package in $(PACKAGES); do \
		printf '%-20s %5s %%\n' $$package "$$($(BIN)/coverage report --include="$$package/*" --format=total)"; \
	done; exit $$status

soak: $(READY)  ## kill devices and servers, pause them and cut their network, 400 times, and see that nothing is lost
	AURICLE_POWER_CUTS=200 $(BIN)/python -m pytest tests/system/test_power_cuts.py
	AURICLE_KILLS=100 $(BIN)/python -m pytest -s tests/system/test_soak.py
	AURICLE_DISTURBANCES=100 $(BIN)/python -m pytest -s tests/system/test_soak_servers.py

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Without TensorFlow, which only building bundles needs: 0.5 GB where .venv takes 3.
DEMO_VENV ?= .venv-demo

$(DEMO_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DEMO_VENV)
	$(DEMO_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[demo]'
	@touch $@

demo: $(DEMO_VENV)/.ready  ## three devices learn sounds together [DATA=folder NEW=a,b SOUNDS=folder JSON=file REPORT=report.html]
	$(DEMO_VENV)/bin/python -m demo --report '$(REPORT)' $(if $(DATA),--data '$(DATA)') \
		$(if $(NEW),--new '$(NEW)') $(if $(SOUNDS),--sounds '$(SOUNDS)') $(if $(JSON),--json '$(JSON)')

site: $(READY)  ## write the documentation as a site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

bundles: $(READY)  ## make the bundles that come with Auricle anew, from the front ends in edge_client/front_ends
	$(BIN)/python -m model_export.ready_bundles

experiments: $(READY)  ## the papers' studies on real data, into docs/studies [TABLES='a b' PROCESSES=n FULL=1]
	$(BIN)/python -m studies $(if $(FULL),--full) $(if $(TABLES),--table $(TABLES)) \
		$(if $(PROCESSES),--processes $(PROCESSES))

# A board takes NumPy, cffi and soundfile from its distribution, and ready bundles.
BOARD := $(filter arm% aarch64,$(shell uname -m))
BOARD_VENV := .venv-edge

$(BOARD_VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --system-site-packages $(BOARD_VENV)
	$(BOARD_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--editable '.[edge]'
	@touch $@

bench-pi: $(if $(BOARD),$(BOARD_VENV)/.ready,$(READY))  ## measure training and recognition on this board [BUNDLES=folder]
	$(if $(BOARD),$(BOARD_VENV),$(VENV))/bin/python -m benchmarks.pi $(if $(BUNDLES),--bundles '$(BUNDLES)')

export DEBIAN_MIRROR
armv7-root: $(READY)  ## build build/armv7-root and -trixie, 32-bit ARM systems, as root [DEBIAN_MIRROR=address]
	$(BIN)/python -m tests.arm armhf root

test-armv7: $(READY)  ## run the device's tests on emulated 32-bit ARM, as root [DEBIAN_MIRROR=address]
	$(BIN)/python -m tests.arm armhf

test-arm64: $(READY)  ## run those of what computes on emulated 64-bit ARM, as root [DEBIAN_MIRROR=address]
	$(BIN)/python -m tests.arm arm64

test-home-assistant: $(READY)  ## a device beside Home Assistant itself, as root [CHECKS='a b' SATELLITE=what pip installs DEBIAN_MIRROR=address]
	SATELLITE='$(SATELLITE)' $(BIN)/python -m tests.home_assistant $(CHECKS)

# Services of this machine; systemd/setup.sh says what their options do. It finds the system's Python itself, unless one
# is named here or in the environment.
export APT DESTDIR PURGE WHEELS
SERVICE_PYTHON := $(if $(filter file,$(origin PYTHON)),,$(PYTHON))
install-edge:  ## set the device up as a service, as root [UI=1 WYOMING=1 PYTHON=name WHEELS=folder APT=1 DESTDIR=folder]
	PYTHON='$(SERVICE_PYTHON)' systemd/setup.sh install edge

install-aggregator:  ## set the aggregator up as a service, as root [BACKUPS=1 ALERTS=folder PYTHON=name WHEELS=folder APT=1 DESTDIR=folder]
	PYTHON='$(SERVICE_PYTHON)' systemd/setup.sh install aggregator

uninstall-edge:  ## remove the device's service, as root; keeps what it learned [PURGE=1 removes that too]
	systemd/setup.sh uninstall edge

uninstall-aggregator:  ## remove the aggregator's service, as root; keeps its data [PURGE=1 removes that too]
	systemd/setup.sh uninstall aggregator

deb: $(READY)  ## the device as Debian packages, into dist [ARCH=armhf or arm64]
	$(BIN)/python -m deb $(ARCH)

release: $(READY)  ## a whole release from a clean checkout, into dist/release [KEY=fingerprint RELEASE=folder ARCH=armhf or arm64]
	$(BIN)/python -m release $(ARCH) $(if $(RELEASE),--output '$(RELEASE)') $(if $(KEY),--key '$(KEY)')

home-assistant: $(READY)  ## the app for Home Assistant, a folder with the wheel, into dist
	rm -rf dist/home-assistant && mkdir -p dist && cp -r home-assistant dist
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist/home-assistant/auricle .
	cp constraints.txt dist/home-assistant/auricle

clean:  ## remove what the build made (keeps .venv)
	rm -rf build .pytest_cache .mypy_cache .ruff_cache
