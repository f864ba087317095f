# One command each; see README.md. PIP_FLAGS is handed to every pip install, PYTHON picks the interpreter (3.11 to 3.13).
PYTHON    ?= python3
VENV      ?= .venv
PIP_FLAGS ?=
# Extra words for pytest or the benchmarks, e.g. make test ARGS="-k dot"
ARGS      ?=
# Test processes; 0 runs the tests in pytest's own
WORKERS   ?= 2

BIN     := $(VENV)/bin
# Tests run in as many processes as there are cores: threads of torch in each would wait for each other's by spinning.
PYTEST  := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check $(PIP_FLAGS) -c constraints.txt
INPUTS  := pyproject.toml constraints.txt

# Older Tritons that the interpreter also runs on. numpy 2.4 took away what the stock interpreter of 3.6 uses.
VERSIONS ?= 3.6 3.7 3.8
NUMPY_3.6 := "numpy<2.4"
OLDEST    := 3.6
# What differs between versions: methods of the builder, public names, values, bounds, and what Triton makes of them.
SMOKE     := $(addprefix tests/render/interpreter/test_,builder.py public_api.py values.py value_lane.py lowering.py)

.PHONY: help demo older test test-all test-oldest test-versions bench power soundness mutation kept libraries lint docs clean
.DELETE_ON_ERROR:

help:
	@echo "make demo      install into $(VENV) and classify a correct kernel"
	@echo "make test      the tests, without the slow ones, and a smoke test on Triton $(OLDEST)"
	@echo "make test-all  every test"
	@echo "make test-versions  the interpreter on older Tritons: $(VERSIONS)"
	@echo "make older     Triton $(OLDEST) into $(VENV)/triton-$(OLDEST), for render replay --stock --stock-triton"
	@echo "make docs      write the pages of docs/ that come from tables: operations, codes, JSON schema"
	@echo "make bench     speed and memory, against the stock interpreter and against plain GEMMs"
	@echo "make soundness attacks on every kernel under every profile; hours, resumable; writes docs/soundness.md"
	@echo "               75 million checks a run; ARGS='--seed 2' adds another one to the page"
	@echo "make kept      keeps the bounds that the rules give now: a test says where one moves"
	@echo "make mutation  mutants of rules, profiles and interpreter: do tests notice? (an hour; docs/mutation.md)"
	@echo "make power     mutants of every packaged kernel: what would be noticed (docs/power.md, half an hour)"
	@echo "make libraries kernels of published libraries, installed beside $(VENV), writes docs/libraries.md (half an hour)"
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

# What common kernels need is compiled once, for all cores to share.
$(VENV)/.warm: $(VENV)/.core
	@$(BIN)/render doctor --warm && touch $@

demo: $(VENV)/.warm
	$(BIN)/render classify kernels/matmul.py --ref torch.matmul

test: $(VENV)/.test
	$(PYTEST) -n $(WORKERS) -m "not slow" $(ARGS)
	@$(MAKE) --no-print-directory test-oldest
	@echo "make test: passed (the slow tests run with make test-all)"

test-all: $(VENV)/.test
	$(PYTEST) -n $(WORKERS) $(ARGS)
	@echo "make test-all: passed"

# Each version lies in a folder of its own in front of the same environment: one download of Triton instead of a second
# torch. All versions are not part of `make test`: each is some hundred megabytes. Where the oldest cannot be fetched,
# `make test` says so and goes on.
$(VENV)/triton-%/.stamp: | $(VENV)/.test
	@echo "Fetching Triton $* (once) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --retries 1 --timeout 20 $(PIP_FLAGS) --no-deps \
	  --upgrade --target $(@D) "triton==$*.*" $(NUMPY_$*)
	@touch $@

older: $(VENV)/triton-$(OLDEST)/.stamp

test-oldest: $(VENV)/.test
	@if $(MAKE) --no-print-directory -s $(VENV)/triton-$(OLDEST)/.stamp; then \
	  echo "Triton $(OLDEST)"; \
	  PYTHONPATH=$(VENV)/triton-$(OLDEST) $(PYTEST) -p no:cacheprovider -n $(WORKERS) -m "not slow" \
	    $(SMOKE); \
	else \
	  echo "skipped: the smoke test on Triton $(OLDEST): the package could not be fetched"; \
	fi

test-versions: $(VERSIONS:%=$(VENV)/triton-%/.stamp)
	@set -e; for v in $(VERSIONS); do \
	  echo "Triton $$v"; \
	  PYTHONPATH=$(VENV)/triton-$$v $(PYTEST) -p no:cacheprovider -m "not slow" \
	    -n $(WORKERS) tests/render/interpreter tests/kernels tests/render/ops/test_library.py \
	    tests/interval_ops/formats/test_older_casts.py $(ARGS); \
	done
	@echo "make test-versions: passed"

docs: $(VENV)/.core
	$(BIN)/python -m render ops --page > docs/ops.md
	$(BIN)/python -m render explain --page > docs/codes.md
	$(BIN)/python -W ignore tests/instruction_table.py
	$(BIN)/python -m tests.docs.guides docs/guides/ten-verdicts.md
	$(BIN)/python -c "from render.result import schema; print(schema.page(), end='')" > docs/verdict.schema.json

bench: $(VENV)/.core
	$(BIN)/python benchmarks/stock_ratio.py $(ARGS)
	$(BIN)/python benchmarks/gemm_floor.py
	$(BIN)/python benchmarks/tightness.py

# Each pair of kernel and profile is written down: an interrupted run goes on where it stopped.
soundness: $(VENV)/.test
	@mkdir -p .render
	$(BIN)/python benchmarks/soundness.py --cross .render/soundness.jsonl --runs 12 $(ARGS)
	$(BIN)/python benchmarks/soundness.py --cross .render/soundness.jsonl --far --runs 84 --page docs/soundness.md $(ARGS)

# Single changes of our own code, against the tests and adversaries that stand nearest; resumable.
mutation: $(VENV)/.test
	@mkdir -p .render
	$(BIN)/python benchmarks/mutation.py --json .render/mutation.jsonl --page docs/mutation.md $(ARGS)

# Results of the rules as they are now, after a change that was meant to move bounds (tests/kept_bounds.py).
kept: $(VENV)/.test
	PYTHONPATH=.:tests $(BIN)/python tests/kept_bounds.py $(ARGS)

power: $(VENV)/.core
	$(BIN)/python benchmarks/power_table.py --rewrites --markdown docs/power.md $(ARGS)
	$(BIN)/python benchmarks/power_small.py --page docs/power.md

# The libraries lie in a folder of their own, without what they depend on: no other torch, Triton or numpy comes along.
$(VENV)/libraries/.stamp: pyproject.toml | $(VENV)/.core
	@echo "Fetching the libraries (once) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check $(PIP_FLAGS) --no-deps --upgrade --target $(@D) \
	  $$($(BIN)/python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['libraries'])")
	@touch $@

libraries: $(VENV)/libraries/.stamp
	PYTHONPATH=.:$(VENV)/libraries $(BIN)/python benchmarks/libraries.py $(ARGS)
	PYTHONPATH=.:$(VENV)/libraries $(BIN)/python benchmarks/library_scopes.py
	PYTHONPATH=.:$(VENV)/libraries $(BIN)/python benchmarks/libraries.py --page docs/libraries.md

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis .render
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
