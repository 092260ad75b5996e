# Everything a newcomer needs. `make help` lists it.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help
help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.PHONY: setup
setup: $(STAMP) ## .venv with the `syncline` command, from the hash-pinned lock file

$(STAMP): requirements/dev.txt pyproject.toml
	@test -n "$(PYTHON)" || { echo "Syncline needs Python 3.11 or newer with the venv module; name one with PYTHON=/path/to/python3"; exit 1; }
	@echo "==> creating $(VENV) with $(PYTHON)"
	@rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
	@echo "==> installing the locked dependencies"
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes --only-binary :all: -r requirements/dev.txt
	@$(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

.PHONY: sandbox
sandbox: setup ## fetch or build the control plane binaries (about 10 minutes when built cold)
	@$(BIN)/syncline sandbox install

.PHONY: tools
tools: setup ## fetch or build helm and kustomize (about 3 minutes when built cold)
	@$(BIN)/syncline sandbox tools

.PHONY: kcp
kcp: setup ## fetch or build kcp, which some tests need (about 7 minutes when built cold)
	@$(BIN)/syncline sandbox install --kcp

.PHONY: image
image: tools ## an OCI archive and its bill of materials in dist/, without a container engine (on Debian; root installs mmdebstrap)
	@$(BIN)/python deploy/image/build.py

.PHONY: demo
demo: sandbox tools $(if $(SHIPPED),image) ## the main job on a real control plane (KEEP=1 leaves it running, SHORT=1 plays nine chapters, SHIPPED=1 runs chart and image)
	@SHIPPED=$(SHIPPED) $(BIN)/python examples/demo.py

.PHONY: test
test: sandbox tools kcp ## all tests, in parallel (TESTS=tests/core for some, WORKERS=6 for another number of workers)
	@# Hundreds of processes start below, and some environments forbid them to write bytecode.
	@$(BIN)/python -m compileall -q src
	@# Before the tests, which would wait for it: a minute when built cold. If it cannot be built, its test says what is missing.
	$(if $(TESTS),,@$(BIN)/python deploy/image/build.py --to build/image || true)
	@# Three workers more than cores: many tests wait for the cluster, not for a core. What fails fails the run; it is run once
	@# more by itself only to tell what kind of failure it is.
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(or $(WORKERS),$$(($$(nproc) + 3))) --dist worksteal $(TESTS) || { code=$$?; [ $$code -eq 1 ] || exit $$code; \
		echo "==> diagnosis: what failed, by itself"; \
		$(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(TESTS) \
			&& echo "==> passes alone: a race, or a wait that is too short. The run has failed."; \
		exit 1; }

.PHONY: coverage
coverage: sandbox tools kcp ## lines and branches that the tests reach, also in the processes that they start (TESTS=tests/core)
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m coverage run -m pytest --timeout 0 -n $(or $(WORKERS),$$(($$(nproc) + 3))) --dist worksteal $(TESTS)
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report --include='src/syncline/core/*' --fail-under $(if $(TESTS),0,95)
	@$(BIN)/python -m coverage report --format total --fail-under $(if $(TESTS),0,85)

.PHONY: explore
explore: sandbox tools kcp ## property tests with many new examples
	@SYNCLINE_EXAMPLES=all $(BIN)/python -m pytest --timeout 0 -n $$(nproc) --dist worksteal $(or $(TESTS),$$(grep -rlE 'hypothesis|tests.sampling' tests --include='test_*.py'))

.PHONY: churn
churn: sandbox tools ## users, crashes and freezes against an oracle (MINUTES=60 SEED=7 WIDTH=4 REPLICAS=2 FAR=1)
	@$(BIN)/python -m tests.churn --minutes $(or $(MINUTES),10) --width $(or $(WIDTH),4) --replicas $(or $(REPLICAS),1) $(if $(SEED),--seed $(SEED)) $(if $(FAR),--far)

.PHONY: lint
lint: setup ## formatting, lint, strict types, import rules
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: setup ## format the code and fix what the linter can
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: generate
generate: setup ## write deploy/ and docs/reference/ anew from the typed specs
	$(BIN)/python -m syncline.deploy.generate

.PHONY: bench
bench: sandbox tools ## quick benchmarks, as ratios in one run
	@$(BIN)/python -m benchmarks

.PHONY: clean
clean: ## remove .venv and caches of the tree
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
