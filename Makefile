# Everything a contributor runs. Each target creates what it needs: Python 3.11 or newer and make are enough.
PYTHON ?= python3
PEERS := 1.3.0 0.3.26 0.2.16
BIN := .venv/bin

.PHONY: help run test check format bench test-pythons lock proto docs clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: .venv/.installed ## Show a conversation translated between the four dialects.
	@$(BIN)/python -m parley.demo

test: .venv/.installed peers ## Run the tests; the core must be covered to the last branch.
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --numprocesses auto
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --fail-under=100 --include='*/protocol/*,*/dialects/*,*/wire/*'

check: .venv/.installed ## Format check, lint, types, import layers, generated files.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_version.py
	$(BIN)/python scripts/generate.py --check

format: .venv/.installed ## Format and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.installed peers .peers/fasta2a/.installed ## Measure, against peers in the same run; writes bench/RESULTS.md.
	$(BIN)/python bench/codecs.py
	$(BIN)/python bench/engine.py
	$(BIN)/python bench/server.py

test-pythons: peers ## Run the tests on every supported interpreter found (3.11 to 3.14).
	$(PYTHON) scripts/test_pythons.py

generate: .venv/.installed ## Write again what is made from tables: protobuf descriptors, docs.
	$(BIN)/python scripts/generate.py

lock: .venv/.installed ## Resolve the dependencies again.
	$(BIN)/python scripts/lock.py

clean: ## Remove everything that was created here.
	rm -rf .venv .venvs .peers .coverage .hypothesis .pytest_cache .ruff_cache dist

.venv/.installed: locks/dev.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r locks/dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.PHONY: peers
peers: $(PEERS:%=.peers/a2a-sdk-%/.installed) .peers/a2a-js/.installed # The SDKs we test against, each in an environment of its own.

.peers/%/.installed: locks/%.lock
	$(PYTHON) -m venv .peers/$*
	.peers/$*/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

.peers/a2a-js/.installed: tests/peers/js/package-lock.json | .venv/.installed
	$(BIN)/python -m tests.interop.javascript
	touch $@
