# Everything a contributor runs. Each target creates what it needs: Python 3.11 or newer and make are enough.
PYTHON ?= python3
PEERS := 1.3.0 0.3.26 0.2.16
INTEROP_PEERS := google-adk strands-agents agent-framework litellm crewai beeai-framework langgraph-api
FEW_INTEROP_PEERS := google-adk strands-agents agent-framework
FRAMEWORKS := langgraph pydantic-ai openai-agents crewai google-adk agent-framework a2a-sdk-1 a2a-sdk-0.3
BIN := .venv/bin
CRASH_TESTS := tests/crashes tests/engine/test_kill.py \
	$(wildcard tests/host/test_*_sigkill.py tests/host/test_*_crashes.py)
PEER_CHECKS := tests/check/test_peers.py tests/proxy/test_old_sdk.py
CORE_TESTS := tests/protocol tests/dialects tests/wire tests/conformance tests/test_golden.py tests/test_signing_interop.py
MCP_TESTS := tests/host/test_mcp_reference_servers.py tests/mcp/test_mcp_command.py
HOST_TESTS := tests/host tests/mcp tests/ai_catalog
CLI_TESTS := tests/cli
# Long tests that have targets of their own.
OTHER_TARGETS := tests/test_tutorial.py tests/test_installing.py $(CRASH_TESTS) $(PEER_CHECKS) $(MCP_TESTS)

.PHONY: help run run-trip test host cli coverage core-coverage tutorial installing crashes-short peer-checks mcp check format bench soak soak-short chaos crashes mutations test-pythons interop interop-short lock proto docs clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run run-trip: PORT ?= 8080
run run-trip: GRPC_PORT ?= off
run: STORE ?= sqlite:///.venv/run.db
# The token of the tenant in a development store is kept beside it, so that every start can show a command to paste.
run: TOKEN_FILE = $(if $(filter sqlite:///%,$(STORE)),$(STORE:sqlite:///%=%).tenant-token)
run: .venv/.installed ## Start a host with agents at http://127.0.0.1:8080 and say what to paste. Also PORT=, GRPC_PORT=, STORE=.
	@echo "If port $(PORT) is in use: make run PORT=8081"
	@exec $(BIN)/parley up --port $(PORT) --grpc-port $(GRPC_PORT) --store $(STORE) --drain-seconds 0 --log-level warning \
		$(if $(TOKEN_FILE),--tenant-token-file $(TOKEN_FILE))

run-trip: STORE ?= sqlite:///.venv/run-trip.db
run-trip: .venv/.installed ## Serve the example of a trip planner that streams a model and delegates. Also PORT=, GRPC_PORT=, STORE=.
	@echo "A trip planner. It streams what a model says, makes a file, and has a second agent convert the budget."
	@echo "Say «Rome»: it asks for how long, and in the end the second agent's question comes through."
	@echo "Stop it in the middle of a plan and run it again: it goes on with the day it was at, and splices nothing."
	@echo "If port $(PORT) is in use: make run-trip PORT=8081"
	@echo "In another terminal: $(BIN)/parley chat http://127.0.0.1:$(PORT)"
	@exec $(BIN)/parley serve examples/trip.py examples/currency.py --root-agent trip-planner \
		--port $(PORT) --grpc-port $(GRPC_PORT) --store $(STORE) --drain-seconds 0 --log-level warning

test: .venv/.installed peers ## Run the tests, without those of a host and of commands: `make host`, `make cli`.
	$(BIN)/pytest --numprocesses auto $(OTHER_TARGETS:%=--ignore=%) $(HOST_TESTS:%=--ignore=%) $(CLI_TESTS:%=--ignore=%)

host: .venv/.installed peers ## Run the tests of a host: agents, tenants, and all that a platform has.
	$(BIN)/pytest --numprocesses auto $(HOST_TESTS) $(OTHER_TARGETS:%=--ignore=%)

cli: .venv/.installed peers ## Run the tests of the commands, most of them in processes of their own.
	$(BIN)/pytest --numprocesses auto $(CLI_TESTS)

coverage: .venv/.installed peers ## Run all three, and show which lines no test runs.
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --numprocesses auto $(OTHER_TARGETS:%=--ignore=%)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95

# Not 100: a branch that only random examples reach may be missed in one run.
core-coverage: .venv/.installed peers ## The tests of the core alone must run all of it.
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q --numprocesses auto $(CORE_TESTS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --precision=2 --fail-under=99.9 --include='*/protocol/*,*/dialects/*,*/wire/*'

tutorial: .venv/.installed ## Type every command of the tutorial into real terminals.
	$(BIN)/pytest -q tests/test_tutorial.py

installing: .venv/.installed .peers/lowest/.installed ## Try the wheel as its users have it: type checkers, lowest versions, extras.
	$(BIN)/pytest -q -n 2 tests/test_installing.py

check: .venv/.installed ## Format check, lint, types, import layers, generated files.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --project pyproject.toml
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_version.py
	$(BIN)/python scripts/generate.py --check

format: .venv/.installed ## Format and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.installed peers ## Measure, against peers in the same run; writes bench/RESULTS.md.
	$(BIN)/python bench/codecs.py
	$(BIN)/python bench/engine.py
	$(BIN)/python bench/agents.py
	$(BIN)/python bench/server.py
	$(BIN)/python bench/client.py

soak-short: .venv/.installed ## The attacks of `soak` on memory and fairness, once each: about two minutes.
	$(BIN)/python bench/soak.py --seconds 0

soak: SECONDS ?= 240
soak: .venv/.installed peers ## Attack a served agent for some minutes, and print what its memory and others' speed come to.
	$(BIN)/python bench/soak.py --seconds $(SECONDS)
	for seed in $$(shuf -i 1-1000000 -n 10); do \
		PARLEY_STORE_SEED=$$seed $(BIN)/pytest -q -k suspending tests/engine tests/agents || exit 1; done
	PARLEY_FUZZ_EXAMPLES=20000 PARLEY_TEST_SECONDS=3600 $(BIN)/pytest -o faulthandler_timeout=3700 tests/server/test_fuzzing.py tests/server/test_schemathesis.py

chaos: SEEDS ?= 5000
chaos: .venv/.installed ## Workers on one store that pause, wake and die, and random handlers that crash, for SEEDS=5000.
	PARLEY_CLAIM_SEEDS=$(SEEDS) PARLEY_SIMULATION_SEEDS=$(SEEDS) PARLEY_PROGRAM_SEEDS=$$(($(SEEDS) / 10)) PARLEY_TEST_SECONDS=7200 \
		$(BIN)/pytest -q -n 2 -o faulthandler_timeout=7300 tests/ownership tests/crashes/test_programs.py

crashes-short: .venv/.installed peers ## The same as `crashes`, at a few events each: about a minute.
	$(BIN)/pytest -q -n 2 $(CRASH_TESTS)

peer-checks: .venv/.installed peers ## Check the servers of other SDKs, and those that a proxy serves for them.
	$(BIN)/pytest -q -n 2 $(PEER_CHECKS)

mcp: .venv/.installed peers .peers/mcp-servers/.installed .peers/mcp-js/.installed ## MCP in real processes: parley mcp, and agents that use the reference servers of PyPI and npm.
	$(BIN)/pytest -q -n 2 $(MCP_TESTS)

crashes: .venv/.installed peers ## Kill agents that stream and delegate at every event, and compare what all readers hold.
	PARLEY_EVERY_CRASH=1 PARLEY_TEST_SECONDS=3600 $(BIN)/pytest -q -o faulthandler_timeout=3700 $(CRASH_TESTS)

mutations: .venv/.installed ## Put mistakes into a copy of the sources, one by one: do the tests notice? Also ONLY="engine: client:".
	$(BIN)/python scripts/mutations.py $(ONLY)

frameworks: $(FRAMEWORKS:%=framework-%) ## Test the adapters, each with its framework in an environment of its own; `make framework-langgraph` for one.

framework-%: .frameworks/%/.installed
	.frameworks/$*/bin/python -m pytest -q framework_tests/$(subst -,_,$(patsubst a2a-sdk-%,a2a-sdk,$*)) framework_tests/test_new_project.py

test-pythons: peers ## Run the tests on every supported interpreter found (3.11 to 3.14).
	$(PYTHON) scripts/test_pythons.py

interop: .venv/.installed $(INTEROP_PEERS:%=.peers/%/.installed) .peers/mastra/.installed ## Play the shared scenario with the clients and servers of other frameworks.
	$(BIN)/pytest -n 2 tests_interop

interop-short: .venv/.installed $(FEW_INTEROP_PEERS:%=.peers/%/.installed) ## The same with a few of them: about a minute.
	$(BIN)/pytest -n 2 tests_interop -k "$(subst $() $(), or ,$(FEW_INTEROP_PEERS))"

docs: .venv/.installed .peers/docs/.installed ## Build the documentation, with search and the API reference, into dist/docs.
	$(BIN)/python scripts/build_docs.py

generate: .venv/.installed ## Write again what is made from tables: protobuf descriptors, docs.
	$(BIN)/python scripts/generate.py

lock: .venv/.installed ## Resolve the dependencies again.
	$(BIN)/python scripts/lock.py

clean: ## Remove everything that was created here.
	rm -rf .venv .venvs .peers .frameworks .coverage .hypothesis .pytest_cache .ruff_cache dist

.venv/.installed: locks/dev.lock pyproject.toml
	@echo "Installing into .venv, about a minute…"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r locks/dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.PRECIOUS: .frameworks/%/.installed
.frameworks/%/.installed: locks/framework-%.lock pyproject.toml | .venv/.installed
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .frameworks/$*
	$(BIN)/uv pip install --quiet --python .frameworks/$*/bin/python --require-hashes -r $<
	$(BIN)/uv pip install --quiet --python .frameworks/$*/bin/python --no-deps --no-build-isolation --editable .
	touch $@

.PHONY: peers
peers: $(PEERS:%=.peers/a2a-sdk-%/.installed) .peers/fasta2a/.installed .peers/lowest/.installed .peers/a2a-js/.installed .peers/schemathesis/.installed # The SDKs we test against, each in an environment of its own, and our dependencies at their lowest.

.peers/%/.installed: locks/%.lock
	$(PYTHON) -m venv .peers/$*
	.peers/$*/bin/python -m pip install --quiet --require-hashes -r $<
	touch $@

# Some of these hold more than a hundred packages, which uv installs in seconds.
$(INTEROP_PEERS:%=.peers/%/.installed): .peers/%/.installed: locks/%.lock | .venv/.installed
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) .peers/$*
	$(BIN)/uv pip install --quiet --require-hashes --python .peers/$*/bin/python -r $<
	touch $@

.peers/mastra/.installed: tests_interop/mastra/package-lock.json | .venv/.installed
	$(BIN)/python -m tests.interop.javascript tests_interop/mastra .peers/mastra
	touch $@

.peers/mcp-js/.installed: tests/peers/mcp_js/package-lock.json | .venv/.installed
	$(BIN)/python -m tests.interop.javascript tests/peers/mcp_js .peers/mcp-js
	touch $@

.peers/a2a-js/.installed: tests/peers/js/package-lock.json | .venv/.installed
	$(BIN)/python -m tests.interop.javascript
	touch $@
