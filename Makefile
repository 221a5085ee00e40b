# Each target first runs the targets that it depends on; a second run reuses their results.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Tests start hundreds of processes: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
PACKAGES := app workers extras/hone_extras tests benchmarks documentation

# The default Python if its version is supported, otherwise the newest supported one.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' \
	2>/dev/null && { echo $$python; break; }; done)

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --upgrade --no-emit-package hone-client
EXTRAS := --extra archive --extra compare --extra learn --extra mcp --extra oidc --extra otel

.PHONY: help install demo serve test check fix openapi docs console faults upgrades release fuzz interop sim bench examples lock clean

help: ## list the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

install: $(VENV)/dev.stamp ## install everything, including the checks, into .venv

demo: $(VENV)/run.stamp ## watch a rough text get better: no API key, no network
	$(BIN)/hone demo

serve: $(VENV)/run.stamp ## run Redis, API and worker until Ctrl-C
	$(BIN)/hone serve

test: install ## run the tests, a process per core and two more; ALL=1 adds those that take long; TESTS=tests/engine runs some
	$(BIN)/python -m pytest -n logical --maxprocesses 4 --dist worksteal $(if $(ALL),--long) $(TESTS)

check: install ## check format, lint, types, import contracts, OpenAPI document, limits of weight
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict $(PACKAGES)
	$(BIN)/mypy --strict -p hone
	$(BIN)/lint-imports --no-logo
	$(BIN)/hone openapi > openapi/openapi.json.new
	diff -u openapi/openapi.json openapi/openapi.json.new || { echo "stale: run make openapi"; exit 1; }
	rm openapi/openapi.json.new
	$(BIN)/python clients/python/generate.py --check || { echo "stale: run make openapi"; exit 1; }
	$(BIN)/python -m benchmarks.structure --check

fix: install ## format, and fix what the linter can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: install ## write openapi/openapi.json from the code, and from it what the clients generate
	mkdir -p openapi
	$(BIN)/hone openapi > openapi/openapi.json.new
	mv openapi/openapi.json.new openapi/openapi.json
	$(BIN)/python clients/python/generate.py

console: ## build the script of the console from app/console/src; needs npm
	cd app/console && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run build

docs: install ## build the documentation site in site/, a broken link fails; SHOW=1 serves it at http://localhost:8000
	$(BIN)/python -m documentation
	$(BIN)/python -m zensical build --strict --clean
	$(if $(SHOW),$(BIN)/python -m http.server -b 127.0.0.1 -d site 8000)

sim: install ## simulate crashes and lost answers for ten minutes; SIM="--once 7" repeats a run
	$(BIN)/python -m tests.simulation --seconds 600 $(SIM)

faults: install ## break a running service in every way, write docs/data/faults.txt; ROWS="kills redis" runs some
	$(BIN)/python -m tests.faults $(or $(ROWS),--write)

upgrades: install ## upgrade from a commit to this version and back, under traffic: OLD=2d66bfec
	$(BIN)/python -m tests.upgrades $(OLD)

release: install ## build wheel, source, clients, image context, SBOM and checksums of this commit into dist/
	$(BIN)/python deploy/release.py dist

interop: install ## play refinements through llama.cpp, LiteLLM, two generated clients and those of OpenAI, have TRL read pairs, lint the OpenAPI document; what cannot be installed is skipped
	$(BIN)/python -m tests.interop $(SERVERS)

fuzz: install ## send 20,000 requests made up from the OpenAPI document, and hostile ones; CASES=1000 SEED=7
	$(BIN)/python -m tests.fuzz $(CASES) $(if $(SEED),--seed $(SEED))

bench: install ## compare Hone with its peers; BENCH=scale shows what grows with what, BENCH=write does all and writes docs
	$(BIN)/python -m benchmarks $(BENCH)

examples: install ## run an example of every strategy and write docs/strategies.md
	$(BIN)/python -m benchmarks.examples docs/strategies.md docs/data/steps.txt
	$(BIN)/python -m benchmarks.json_repair > docs/data/json-repair.txt

lock: install ## update the lock files to the newest versions that pyproject.toml allows
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) --group pyproject.toml:build -c requirements.lock -o requirements-build.lock
	$(COMPILE) pyproject.toml $(EXTRAS) -c requirements.lock -o requirements-extras.lock
	$(COMPILE) pyproject.toml $(EXTRAS) --group pyproject.toml:dev -c requirements-extras.lock \
		-c requirements-build.lock -o requirements-dev.lock

clean: ## remove .venv, caches and builds
	rm -rf $(VENV) build dist site .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Hone needs Python 3.11 to 3.14 with its venv module."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: pyproject.toml clients/python/pyproject.toml requirements.lock requirements-build.lock | $(BIN)/python
	$(PIP) --no-compile --require-hashes -r requirements.lock -r requirements-build.lock
	$(PIP) --no-deps --no-build-isolation --editable . --editable clients/python
	@touch $@

# Without pip's own look at what is missing: the lock leaves out what pyproject.toml overrides.
$(VENV)/dev.stamp: requirements-dev.lock $(VENV)/run.stamp
	$(PIP) --no-deps --require-hashes -r requirements-dev.lock
	@touch $@
