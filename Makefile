# Two commands for a machine with Python and make: `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# The extra arguments of every pip call, for an index of your own for example.
PIP_ARGS ?=
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIP_ARGS) --constraint .ci/constraints.txt
# Without a GPU the build that is called +cpu is tried first; where the index has none, the plain one is taken.
HAS_GPU := $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L 2>/dev/null | grep -q GPU && echo yes)
TORCH := torch==2.13.0

export HF_HUB_OFFLINE ?= 1
export HF_DATASETS_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM ?= false
# The tests start many interpreters, each of which would compile all of the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-slow test-cuda lint format clean
.DEFAULT_GOAL := help

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

$(VENV)/.installed: pyproject.toml .ci/constraints.txt
	@echo "setting up $(VENV) (some minutes the first time)"
	@$(PYTHON) -m venv $(VENV)
ifeq ($(HAS_GPU),yes)
	@$(PIP_INSTALL) $(TORCH)
else
	@$(PIP_INSTALL) $(TORCH)+cpu 2>/dev/null || $(PIP_INSTALL) $(TORCH)
endif
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@

demo: $(VENV)/.installed  ## Pre-train a tiny ELMo in two or three minutes and look at it.
	@$(BIN)/python scripts/demo.py

test: $(VENV)/.installed  ## Run the tests, on two processes of one thread.
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-slow: $(VENV)/.installed  ## Run the tests that take minutes, and the properties on ten times as many examples.
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile -m "slow or hypothesis" --hypothesis-profile thorough

test-cuda: $(VENV)/.installed  ## Run the tests of a GPU.
	@HF_ELMO_TEST_CUDA=1 $(BIN)/python -m pytest -q tests/test_cuda.py

lint: $(VENV)/.installed  ## Check the style and the types.
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python -m mypy

format: $(VENV)/.installed  ## Put the style right.
	@$(BIN)/ruff check --fix . && $(BIN)/ruff format .

clean:  ## Remove the environment and what was made.
	rm -rf $(VENV) output build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
