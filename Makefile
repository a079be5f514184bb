# Everything a contributor runs. Each target creates what it needs: Python 3.11 or newer and make are enough.
PYTHON ?= python3
PEERS := 1.3.0 0.3.26 0.2.16
INTEROP_PEERS := google-adk strands-agents agent-framework litellm crewai beeai-framework langgraph-api
FEW_INTEROP_PEERS := google-adk strands-agents agent-framework
FRAMEWORKS := langgraph pydantic-ai openai-agents crewai google-adk agent-framework a2a-sdk-1 a2a-sdk-0.3
BIN := .venv/bin
CRASH_TESTS := tests/crashes tests/engine/test_kill.py tests/engine/test_delivery_kill.py \
	$(wildcard tests/host/test_*_sigkill.py tests/host/test_*_crashes.py)
PEER_CHECKS := tests/check tests/proxy
CORE_TESTS := tests/protocol tests/dialects tests/wire tests/conformance tests/test_golden.py tests/test_signing_interop.py
MCP_TESTS := tests/host/test_mcp_reference_servers.py tests/mcp/test_mcp_command.py
HOST_TESTS := tests/host tests/mcp tests/ai_catalog tests/console
CLI_TESTS := tests/cli tests/keys/test_rotation_in_processes.py tests/test_docs.py
DEPLOY_TESTS := tests/deploy
RESTART_TESTS := tests/cluster_restart
POSTGRES_TESTS := $(wildcard tests/stores/test_postgres*.py) tests/cluster
# Suites that run on stores in memory and in files otherwise.
SUITES_ON_POSTGRES := tests/engine tests/agents tests/adapters tests/conformance
# Long tests that have targets of their own.
OTHER_TARGETS := $(DEPLOY_TESTS) $(RESTART_TESTS) $(POSTGRES_TESTS) tests/test_tutorial.py tests/test_installing.py tests/test_release.py $(CRASH_TESTS) $(PEER_CHECKS) $(MCP_TESTS)

.PHONY: help run run-trip console console-test browser cluster deployment rolling-restart test host host-postgres cli postgres coverage core-coverage tutorial installing release crashes-short peer-checks mcp check format bench soak soak-short webhook-soak simulation chaos chaos-short chaos-mutation crashes mutations test-pythons interop interop-short lock proto docs clean postgres-versions screenshots

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run run-trip: PORT ?= 8080
run run-trip: GRPC_PORT ?= off
run: STORE ?= sqlite:///.venv/run.db
# The token of the tenant in a development store is kept beside it, so that every start can show a command to paste.
run: TOKEN_FILE = $(if $(filter sqlite:///%,$(STORE)),$(STORE:sqlite:///%=%).tenant-token)
run: .venv/.installed console ## Start a host with agents at http://127.0.0.1:8080 and say what to paste. Also PORT=, GRPC_PORT=, STORE=.
	@echo "If port $(PORT) is in use: make run PORT=8081"
	@exec $(BIN)/parley up --port $(PORT) --grpc-port $(GRPC_PORT) --store $(STORE) --drain-seconds 0 --log-level warning \
		$(if $(TOKEN_FILE),--tenant-token-file $(TOKEN_FILE))

run-trip: STORE ?= sqlite:///.venv/run-trip.db
run-trip: .venv/.installed console ## Serve the example of a trip planner that streams a model and delegates. Also PORT=, GRPC_PORT=, STORE=.
	@echo "A trip planner. It streams what a model says, makes a file, and has a second agent convert the budget."
	@echo "Say «Rome»: it asks for how long, and in the end the second agent's question comes through."
	@echo "Stop it in the middle of a plan and run it again: it goes on with the day it was at, and splices nothing."
	@echo "If port $(PORT) is in use: make run-trip PORT=8081"
	@echo "In another terminal: $(BIN)/parley chat http://127.0.0.1:$(PORT)"
	@exec $(BIN)/parley serve examples/trip.py examples/currency.py --root-agent trip-planner \
		--port $(PORT) --grpc-port $(GRPC_PORT) --store $(STORE) --drain-seconds 0 --log-level warning

console: .venv/.installed ## Build the page of the console, if it is missing or its sources have changed.
	@$(BIN)/python scripts/build_console.py

console-test: .venv/.installed ## Check the types of the page of the console, run its tests, and build it within its size.
	$(BIN)/python scripts/build_console.py --test

BROWSER_PEERS := a2a-sdk-1.3.0 a2a-sdk-0.3.26 fasta2a a2a-js chromium
browser: .venv/.installed console $(BROWSER_PEERS:%=.peers/%/.installed) ## Drive the console in a real Chromium, against real servers: some minutes.
	$(BIN)/pytest -q -n 2 --dist loadfile tests_browser --ignore=tests_browser/test_speed.py
	$(BIN)/pytest -q tests_browser/test_speed.py

cluster: PORT ?= 8080
cluster: .venv/.installed ## Start PostgreSQL, NATS, three replicas and a balancer at http://127.0.0.1:8080, and say what to kill. Also PORT=, FOLDER=.
	@exec $(BIN)/python -m scripts.cluster --port $(PORT) $(if $(FOLDER),--folder $(FOLDER))

test: .venv/.installed peers ## Run the tests, and a cluster under ten faults. `make host`, `make cli` and `make peer-checks` have the others.
	$(BIN)/pytest --numprocesses auto $(OTHER_TARGETS:%=--ignore=%) $(HOST_TESTS:%=--ignore=%) $(CLI_TESTS:%=--ignore=%)
	@$(MAKE) --no-print-directory chaos-short

host: .venv/.installed peers ## Run the tests of a host (agents, tenants, and all that a platform has) and of the console.
	$(BIN)/pytest --numprocesses auto $(HOST_TESTS) $(OTHER_TARGETS:%=--ignore=%)

host-postgres: .venv/.installed ## Run the tests of a host on PostgreSQL instead of stores in memory and in files.
	PARLEY_TEST_STORE=postgres $(BIN)/pytest --numprocesses auto tests/host $(OTHER_TARGETS:%=--ignore=%)

cli: .venv/.installed peers ## Run the tests of the commands, most of them in processes of their own, and of those that docs show.
	$(BIN)/pytest --numprocesses auto $(CLI_TESTS)

postgres: .venv/.installed peers ## The PostgreSQL store, hints between processes, and the engine and all bindings on PostgreSQL.
	$(BIN)/pytest -q --numprocesses auto $(POSTGRES_TESTS)
	PARLEY_TEST_STORE=postgres $(BIN)/pytest -q --numprocesses auto $(SUITES_ON_POSTGRES) $(OTHER_TARGETS:%=--ignore=%)

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
	$(BIN)/coverage report --precision=2 --fail-under=99.9 --include='*/parley/protocol/*,*/parley/dialects/*,*/parley/wire/*'

tutorial: .venv/.installed ## Type every command of the tutorial into real terminals.
	$(BIN)/pytest -q tests/test_tutorial.py

installing: .venv/.installed .peers/lowest/.installed console ## Try the wheel as its users have it: type checkers, lowest versions, extras.
	$(BIN)/pytest -q -n 2 --dist loadgroup tests/test_installing.py tests/test_release.py

release: .venv/.installed console ## Build sdist and wheel twice, check both, and write them with an SBOM into dist: some minutes. Also RELEASE="--accept ID".
	$(BIN)/python -m scripts.release $(RELEASE)

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

bench: .venv/.installed peers console .peers/chromium/.installed ## Measure, against peers in the same run; writes bench/RESULTS.md, CLIENT.md, CLUSTER.md and CONSOLE.md.
	$(BIN)/python bench/codecs.py
	$(BIN)/python bench/engine.py
	$(BIN)/python bench/agents.py
	$(BIN)/python bench/server.py
	$(BIN)/python bench/client.py
	$(BIN)/python bench/cluster.py
	$(BIN)/python bench/console.py

screenshots: .venv/.installed console .peers/chromium/.installed ## Make the pictures of the console in docs/images, from real runs.
	$(BIN)/python -m scripts.screenshots

soak-short: .venv/.installed ## The attacks of `soak` on memory and fairness, once each, and a short `webhook-soak`: under three minutes.
	$(BIN)/python bench/soak.py --seconds 0
	$(BIN)/python bench/webhook_soak.py --tasks 50 --failing-seconds 15 --folder $(firstword $(wildcard /dev/shm) /tmp)

webhook-soak: .venv/.installed ## 3,000 webhooks of which a third of the calls fail, beside some that hang: what is delivered, and what it costs streams and others.
	$(BIN)/python bench/webhook_soak.py --folder $(firstword $(wildcard /dev/shm) /tmp)

soak: SECONDS ?= 240
soak: .venv/.installed peers ## Attack a served agent for some minutes, and print what its memory and others' speed come to.
	$(BIN)/python bench/soak.py --seconds $(SECONDS)
	for seed in $$(shuf -i 1-1000000 -n 10); do \
		PARLEY_STORE_SEED=$$seed $(BIN)/pytest -q -k suspending tests/engine tests/agents || exit 1; done
	PARLEY_FUZZ_EXAMPLES=20000 PARLEY_TEST_SECONDS=3600 $(BIN)/pytest -o faulthandler_timeout=3700 tests/server/test_fuzzing.py tests/server/test_schemathesis.py

simulation: SEEDS ?= 5000
simulation: .venv/.installed ## Workers on one store that pause, wake and die, and random handlers that crash, for SEEDS=5000.
	PARLEY_CLAIM_SEEDS=$(SEEDS) PARLEY_SIMULATION_SEEDS=$(SEEDS) PARLEY_PROGRAM_SEEDS=$$(($(SEEDS) / 10)) PARLEY_TEST_SECONDS=7200 \
		$(BIN)/pytest -q -n 2 -o faulthandler_timeout=7300 tests/ownership tests/crashes/test_programs.py

deployment: .venv/.installed .peers/deploy/.installed console ## Check the image, the Compose file, the manifests and the proxy of deploy/, and play with `make cluster`.
	$(BIN)/pytest -q -n 2 $(DEPLOY_TESTS)

rolling-restart: .venv/.installed peers ## Restart three replicas one after the other, under load from our client and a2a-sdk's: half a minute.
	$(BIN)/pytest -q $(RESTART_TESTS)

chaos: SECONDS ?= 1800
chaos: CLIENTS ?= 200
chaos: .venv/.installed ## Three replicas, PostgreSQL and NATS under faults for SECONDS=1800, and a checker. Also SEED=, CLIENTS=.
	$(BIN)/python -m tests.chaos --seconds $(SECONDS) --at-least $$(($(SECONDS) / 9)) --clients $(CLIENTS) $(if $(SEED),--seed $(SEED))

chaos-short: .venv/.installed ## The same with ten faults: about a minute.
	$(BIN)/python -m tests.chaos --seconds 45 --at-least 10 --faults 10 --clients 60 --pauses 0.2 1 --lease 1.5 $(if $(SEED),--seed $(SEED))

chaos-mutation: .venv/.installed ## The checker must find what a broken fence between replicas does: a minute and a half.
	$(BIN)/python -m tests.chaos --seconds 40 --clients 60 --patience 20 --kinds "freeze replica" "partition" \
		--mutate "chaos: the fence lets a former holder write" --expect "one owner at a time"

crashes-short: .venv/.installed peers ## The same as `crashes`, at a few events each: about a minute.
	$(BIN)/pytest -q -n 2 $(CRASH_TESTS)

peer-checks: .venv/.installed peers ## The checker and the proxy: on servers of other SDKs, scripted and hostile ones, and our own.
	$(BIN)/pytest -q -n 2 $(PEER_CHECKS)

mcp: .venv/.installed peers .peers/mcp-servers/.installed .peers/mcp-js/.installed ## MCP in real processes: parley mcp, and agents that use the reference servers of PyPI and npm.
	$(BIN)/pytest -q -n 2 $(MCP_TESTS)

postgres-versions: .venv/.installed .peers/postgres/.installed ## Run the tests of the PostgreSQL store against releases 14 to 18 (Linux).
	$(BIN)/python -m tests.services.postgres_versions

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
	rm -rf .venv .venvs .peers .frameworks .coverage .hypothesis .pytest_cache .ruff_cache dist console/node_modules src/parley/console/static

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

.peers/chromium/.installed: tests_browser/chromium/package-lock.json tests_browser/chromium/unpack.mjs | .venv/.installed
	$(BIN)/python -m tests_browser.browser
	touch $@

.peers/postgres/.installed: tests/peers/postgres/package-lock.json | .venv/.installed
	$(BIN)/python -m tests.interop.javascript tests/peers/postgres .peers/postgres
	touch $@

.peers/a2a-js/.installed: tests/peers/js/package-lock.json | .venv/.installed
	$(BIN)/python -m tests.interop.javascript
	touch $@
