# Everything runs in .venv, which the first target that needs it makes from requirements.lock.
# Another Python than the first one found: make test PYTHON=/path/to/python3.12

VENV := .venv
PY := $(VENV)/bin/python
# An environment copied to another place still points to the old one: the stamp carries the place.
READY := $(VENV)/.ready-$(shell printf '%s' '$(CURDIR)' | cksum | cut -d' ' -f1)

DEMO ?= examples/gpt2.mlir
PYTEST_FLAGS ?= -n auto --maxprocesses 4 --dist loadgroup
# The version that the lock pins, inside the range that pyproject.toml allows.
LOCKED_JAX ?= 0.10.2
LOCK_VENV := build/lock-venv

export PYTHON MAKECMDGOALS

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test lint format types floors unit fuzz bench oracles lock clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | column -t -s@ 2>/dev/null \
	  || sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1: \2/p' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from requirements.lock (the other targets do it by themselves)

$(READY): requirements.lock pyproject.toml tools/setup.sh
	@bash tools/setup.sh
	@rm -f $(VENV)/.ready-*
	@touch $@

demo: $(READY) ## shard an example, run it on virtual devices, verify the answer
	$(VENV)/bin/shardwright run $(DEMO)

test: lint types floors unit ## everything that a change must pass

lint: $(READY) ## ruff: lint rules and formatting
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: $(READY) ## let ruff rewrite what lint would refuse
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

types: $(READY) ## mypy, strict
	$(PY) -m mypy

floors: $(READY) ## imports go downward only, and private jaxlib stays behind its door
	$(PY) tools/floors.py

unit: $(READY) ## the tests, without the long ones
	$(PY) -m pytest $(PYTEST_FLAGS)

fuzz: $(READY) ## the long tests only (minutes)
	$(PY) -m pytest $(PYTEST_FLAGS) -m long

bench: $(READY) ## every benchmark, each against a peer measured in the same run
	@set -e; for file in benchmarks/*.py; do \
	  [ "$$file" = benchmarks/common.py ] || { echo "== $$file"; $(PY) "$$file"; }; \
	done

oracles: $(READY) ## the peers that some tests compare with: torch and torch-mlir (300 MB)
	@bash tools/oracles.sh

# One package a line, name==version and hashes: no index, no address, no path of any machine.
lock: $(READY) ## resolve requirements.lock anew
	@[ -x $(LOCK_VENV)/bin/pip-compile ] \
	  || { $(PY) -m venv $(LOCK_VENV) && $(LOCK_VENV)/bin/python -m pip install --quiet pip-tools; }
	$(LOCK_VENV)/bin/pip-compile pyproject.toml --quiet --upgrade --extra dev --build-deps-for editable \
	  --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate --no-emit-options \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --upgrade-package jax==$(LOCKED_JAX) --upgrade-package jaxlib==$(LOCKED_JAX) \
	  --output-file build/requirements.txt
	@sed -e ':join' -e '/\\$$/{N;s/ *\\\n */ /;b join' -e '}' build/requirements.txt \
	  | grep -E '^[A-Za-z0-9_.-]+==[^ ]+( --hash=sha256:[0-9a-f]{64})+$$' > requirements.lock
	@echo "requirements.lock: $$(wc -l < requirements.lock) packages"

clean: ## remove what the targets made, .venv included
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
