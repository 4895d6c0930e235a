# make demo    set up .venv, mine the demo texts, score the result     (half a minute once set up)
# make test    set up .venv, lint, type check, tests                  (about five minutes on 2 quiet cores)
# make docs    write docs/cli.md, docs/recipes.md, docs/api.md, the pictures, the table of evaluations, and what sessions print
# make site    build the documentation as a site that needs no network: build/site/index.html
# make release-check   build wheel and sdist, and try the wheel on every Python that is here  (minutes each)
# make clean   remove what the demo and the tests wrote (not .venv)
#
# PYTHON=python3.12 picks the interpreter, TORCH=... another build of torch.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# Python compiles a module when it is first imported; pip would compile all, of which few are needed.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --no-compile
TORCH_VERSION := 2.13.0
# Named on every pip line: a later resolve must not trade the CPU build for gigabytes of CUDA.
TORCH ?= torch==$(TORCH_VERSION)

.PHONY: release-check help demo test docs site clean
help:
	@sed -n 's/^# //p;/^$$/q' Makefile

demo: $(VENV)/.stamp-plot
	@PATH="$(CURDIR)/$(BIN):$$PATH" mexma demo

test: export OMP_NUM_THREADS := 1
test: $(VENV)/.stamp-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Beside it: compiled loops. Then the bytecode of what tests import, which both workers would compile.
	$(BIN)/mexma doctor --warm > /dev/null & $(BIN)/pyrefly check --python-interpreter-path $(BIN)/python && { $(BIN)/pytest -q --collect-only > /dev/null || true; } && wait $$!
	$(BIN)/pytest -q -n 2 --dist loadgroup --no-loadscope-reorder

docs: $(VENV)/.stamp-plot
	$(BIN)/python docs/make_keywords.py > docs/keywords.tmp && mv docs/keywords.tmp mexma_cli/settings/keywords.py
	$(BIN)/python docs/make_cli.py > docs/cli.md.tmp && mv docs/cli.md.tmp docs/cli.md
	$(BIN)/python docs/make_recipes.py > docs/recipes.md.tmp && mv docs/recipes.md.tmp docs/recipes.md
	$(BIN)/python docs/make_api.py > docs/api.md.tmp && mv docs/api.md.tmp docs/api.md
	$(BIN)/python docs/make_pictures.py
	$(BIN)/python docs/make_evaluations.py > docs/evaluation.md.tmp && mv docs/evaluation.md.tmp docs/evaluation.md
	$(BIN)/python docs/make_sessions.py

site: $(VENV)/.stamp-site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html"

release-check:
	@bash tests/release.sh

clean:
	rm -rf build/site mexma-demo .pytest_cache .ruff_cache .hypothesis

# One environment for both: .stamp-* say what is in it; pyproject.toml newer than a stamp installs again.
$(BIN)/python:
	@for python in $(PYTHON) python3 python3.11 python3.12 python3.13 python3.14; do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	  echo "creating $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv $(VENV) && exit 0; \
	  rm -rf $(VENV); \
	  echo "error: $$python -m venv failed; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; \
	done; echo "error: no Python 3.11 or newer found; name one with PYTHON=/path/to/python3" >&2; exit 1

# Without a GPU the CPU build is asked for by its own version first; an index that lacks it has the plain one.
$(VENV)/.stamp-torch-$(TORCH_VERSION): | $(BIN)/python
	@if $(BIN)/python -c 'import sys, importlib.metadata as m; sys.exit(m.version("torch").split("+")[0] != "$(TORCH_VERSION)")' 2>/dev/null; then \
	  echo "torch $(TORCH_VERSION) is already in $(VENV)"; \
	elif [ "$(TORCH)" = "torch==$(TORCH_VERSION)" ] && ! nvidia-smi >/dev/null 2>&1; then \
	  echo "installing torch $(TORCH_VERSION), CPU build"; \
	  $(PIP) "torch==$(TORCH_VERSION)+cpu" 2>/dev/null || $(PIP) "$(TORCH)"; \
	else \
	  echo "installing $(TORCH)"; $(PIP) "$(TORCH)"; \
	fi
	@touch $@

$(VENV)/.stamp-plot: pyproject.toml $(VENV)/.stamp-torch-$(TORCH_VERSION)
	@echo "installing mexma and what it needs into $(VENV)"
	@$(PIP) "$(TORCH)" --editable '.[plot]'
	@touch $@

$(VENV)/.stamp-site: pyproject.toml $(VENV)/.stamp-torch-$(TORCH_VERSION)
	@$(PIP) "$(TORCH)" --editable '.[site]'
	@touch $@

$(VENV)/.stamp-dev: pyproject.toml $(VENV)/.stamp-torch-$(TORCH_VERSION)
	@echo "installing mexma and what its tests need into $(VENV)"
	@$(PIP) "$(TORCH)" --editable '.[plot,dev]'
	@touch $@ $(VENV)/.stamp-plot
