# Everything runs in .venv, which the first target that needs it makes from requirements.lock.
# Another Python than the first one found: make test PYTHON=/path/to/python3.12
# Another jax, in an environment of its own: make test JAX=0.12 PYTHON=python3.13

JAX :=
# The versions that the locks pin, inside the range that pyproject.toml allows; requirements.lock has the first.
LOCKED_JAX := 0.10.2 0.11.2 0.12.0.1
LANES := python3.11-jax0.10 python3.12-jax0.11 python3.12-jax0.12 python3.13-jax0.12

LOCK := requirements$(addprefix -jax,$(filter-out 0.10,$(JAX))).lock
VENV := $(if $(JAX),build/lanes/$(notdir $(or $(PYTHON),python3))-jax$(JAX),.venv)
PY := $(VENV)/bin/python
# An environment copied to another place still points to the old one: the stamp carries the place. And the Python.
READY := $(VENV)/.ready-$(shell printf '%s' '$(CURDIR) $(PYTHON)' | cksum | cut -d' ' -f1)

DEMO ?= examples/gpt2.mlir
PYTEST_FLAGS ?= -n auto --maxprocesses 4 --dist loadgroup

export PYTHON JAX VENV LOCK MAKECMDGOALS
# Tests start hundreds of processes: each would compile the sources anew, half a second, where bytecode is not kept.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test lint format types floors unit lanes fuzz bench oracles lock clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | column -t -s@ 2>/dev/null \
	  || sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1: \2/p' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv from requirements.lock (the other targets do it by themselves)

requirements-jax%.lock:
	@echo "no lock for jax $*; there are: $(LOCKED_JAX)" >&2; exit 1

$(READY): $(LOCK) pyproject.toml tools/setup.sh tools/python.sh
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

lanes: ## the tests with every jax and Python that is supported and on this machine
	@bash tools/lanes.sh $(LANES)

fuzz: $(READY) ## the long tests only (minutes)
	$(PY) -m pytest $(PYTEST_FLAGS) -m long

bench: $(READY) ## every benchmark, each against a peer measured in the same run
	@set -e; for file in benchmarks/*.py; do \
	  case $$file in */common.py | */against.py) continue ;; esac; \
	  echo "== $$file"; $(PY) "$$file"; \
	done

oracles: $(READY) ## the peers that some tests compare with: torch and torch-mlir (300 MB)
	@bash tools/oracles.sh

lock: ## resolve requirements.lock and the locks of the other jaxes anew
	@set -e; for version in $(LOCKED_JAX); do bash tools/lock.sh $$version; done

clean: ## remove what the targets made, .venv included
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
