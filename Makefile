# One command each; see README.md. PIP_FLAGS is handed to every pip install, PYTHON picks the interpreter (3.11 to 3.13).
PYTHON    ?= python3
VENV      ?= .venv
PIP_FLAGS ?=
# Extra words for pytest or the benchmarks, e.g. make test ARGS="-k dot"
ARGS      ?=
# Test processes; 0 runs the tests in pytest's own
WORKERS   ?= 2

BIN     := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt
INPUTS  := pyproject.toml constraints.txt

# Older Tritons that the interpreter also runs on. numpy 2.4 took away what the stock interpreter of 3.6 uses.
VERSIONS ?= 3.6 3.7 3.8
NUMPY_3.6 := "numpy<2.4"

.PHONY: help demo test test-all test-versions bench lint docs clean
.DELETE_ON_ERROR:

help:
	@echo "make demo      install into $(VENV) and classify a correct kernel"
	@echo "make test      the tests, without the slow ones"
	@echo "make test-all  every test"
	@echo "make test-versions  the interpreter on older Tritons: $(VERSIONS)"
	@echo "make docs      write docs/ops.md from the rule tables"
	@echo "make bench     speed and memory, against the stock interpreter and against plain GEMMs"
	@echo "make lint      ruff and mypy"
	@echo "make clean     remove $(VENV), builds and caches"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "RENDER needs Python 3.11 or newer; try: make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv $(VENV)

# Stamps: an install is repeated only when what it installs has changed.
$(VENV)/.core: $(BIN)/python $(INPUTS)
	@echo "Installing RENDER into $(VENV) (a minute or two, once) ..."
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.test: $(BIN)/python $(INPUTS)
	@echo "Installing RENDER and its test tools into $(VENV) (a minute or two, once) ..."
	@$(INSTALL) -e ".[test]"
	@touch $@ $(VENV)/.core

$(VENV)/.dev: $(BIN)/python $(INPUTS)
	@echo "Installing the development tools into $(VENV) ..."
	@$(INSTALL) -e ".[dev]"
	@touch $@ $(VENV)/.core $(VENV)/.test

demo: $(VENV)/.core
	$(BIN)/render classify kernels/matmul.py --ref torch.matmul

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow" $(ARGS)
	@echo "make test: passed (the slow tests run with make test-all)"

test-all: $(VENV)/.test
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)
	@echo "make test-all: passed"

# Each version lies in a folder of its own in front of the same environment: one download of Triton instead of a second
# torch. Not part of `make test`: it needs the network, and some hundred megabytes per version.
$(VENV)/triton-%/.stamp: $(VENV)/.test
	@echo "Fetching Triton $* (once) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check $(PIP_FLAGS) --no-deps --upgrade \
	  --target $(@D) "triton==$*.*" $(NUMPY_$*)
	@touch $@

test-versions: $(VERSIONS:%=$(VENV)/triton-%/.stamp)
	@set -e; for v in $(VERSIONS); do \
	  echo "Triton $$v"; \
	  PYTHONPATH=$(VENV)/triton-$$v $(BIN)/python -m pytest -p no:cacheprovider -m "not slow" \
	    tests/render/interpreter tests/kernels tests/interval_ops/test_rules.py tests/interval_ops/test_library.py $(ARGS); \
	done
	@echo "make test-versions: passed"

docs: $(VENV)/.core
	$(BIN)/python -m render ops --page > docs/ops.md

bench: $(VENV)/.core
	$(BIN)/python benchmarks/stock_ratio.py $(ARGS)
	$(BIN)/python benchmarks/gemm_floor.py
	$(BIN)/python benchmarks/tightness.py

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis .render
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
