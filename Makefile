# Every target sets up what it needs; nothing is installed outside this directory.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python

# Thousands of processes start in a test run, and without .pyc files each would compile the product anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup check lint unit format test audit demo prove loadtest loadtest-mixed loadtest-pages bench-consumer bench-broker \
	bench-ingest bench-network bench-worker bench-state bench-fetch bench-crawl bench-hosts bench-sinks bench-warc image \
	container-tools test-containers release lock clean

help: ## Show what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Manyhands needs Python 3.11 or later: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

setup: $(VENV)/.installed ## Make .venv and build the real servers (once, cached)
	@$(PY) -m devservers build

check: $(VENV)/.installed ## Format, lint, types, import direction and unit tests: what CI runs first
	@$(MAKE) --no-print-directory --jobs=2 lint unit

lint: $(VENV)/.installed
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

unit: $(VENV)/.installed
	$(VENV)/bin/pytest -q -n 2 $(COVERAGE) tests/unit examples

format: $(VENV)/.installed ## Format and sort imports
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

# The servers are built beside the checks: much of either waits for a network or for one processor.
test: $(VENV)/.installed ## Everything: check, then the tests against real servers
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=line lint unit setup
	$(PY) -m tests

audit: $(VENV)/.installed ## Known vulnerabilities of the locked packages, where PyPI can be asked
	@$(PY) requirements/audit.py

demo: $(VENV)/.installed ## Broker, API, workers and a made-up web: a whole crawl, live
	@$(VENV)/bin/manyhands demo

prove: setup ## The long fault runs (an hour and a half); results land in docs/proofs
	$(PY) -m tests --prove

bench-consumer: setup ## Drain the same jobs by us, Rust, Go and PyPI; table in docs/benchmarks
	$(PY) -m loadtest bench-consumer $(ARGS)

bench-broker: setup ## Push to and drain from a real Faktory and our broker; table in docs/benchmarks
	$(PY) -m loadtest bench-broker $(ARGS)

bench-ingest: setup ## POST jobs to the API, against an empty FastAPI route and raw PUSHB; table in docs/benchmarks
	$(PY) -m loadtest bench-ingest $(ARGS)

bench-network: setup ## Our worker and Rust's from 0 to 200 ms away, on both servers; table in docs/benchmarks
	$(PY) -m loadtest bench-network $(ARGS)

bench-worker: setup ## Our worker from 1 to N processes and from 50 to 20,000 slots; table in docs/benchmarks
	$(PY) -m loadtest bench-worker $(ARGS)

bench-state: setup ## The crawls' state: admissions, claims, and millions of seen URLs; table in docs/benchmarks
	$(PY) -m loadtest bench-state $(ARGS)

bench-fetch: setup ## Our fetcher beside aiohttp, pyreqwest and httpx; table in docs/benchmarks
	$(PY) -m loadtest bench-fetch $(ARGS)

bench-crawl: setup ## A made-up web crawled by us, Scrapy and Colly; table in docs/benchmarks
	$(PY) -m loadtest bench-crawl $(ARGS)

bench-hosts: setup ## Crawls and fetch jobs on one to three worker hosts; table in docs/benchmarks
	$(PY) -m loadtest bench-hosts $(ARGS)

bench-sinks: setup ## Three sinks at once, and what a crawl into sinks costs; table in docs/benchmarks
	$(PY) -m loadtest bench-sinks $(ARGS)

bench-warc: setup ## WARC files decoded and exported, beside FastWARC and warcio; table in docs/benchmarks
	$(PY) -m loadtest bench-warc $(ARGS)

loadtest: setup ## Locust against API, broker and worker; ends with a ledger of every job
	$(PY) -m loadtest run $(ARGS)

loadtest-mixed: setup ## Locust with jobs, pages to fetch and crawls; ends with a ledger of each
	$(PY) -m loadtest mixed $(ARGS)

loadtest-pages: setup ## The same with pages to fetch, on two worker hosts that are killed; needs root
	$(PY) -m loadtest pages $(ARGS)

# A client without its daemon is no engine.
ENGINE = $(shell docker info >/dev/null 2>&1 && echo docker || command -v podman)

# Debian's and Ubuntu's; debootstrap makes a Debian wherever it runs.
CONTAINER_PACKAGES = podman runc netavark aardvark-dns debootstrap debian-archive-keyring iproute2
HAS_CONTAINER_TOOLS = command -v podman && command -v runc && command -v debootstrap && command -v ip \
	&& test -x /usr/lib/podman/netavark && test -x /usr/lib/podman/aardvark-dns
APT_INSTALL = apt-get install --yes --no-install-recommends $(CONTAINER_PACKAGES)

container-tools: ## What test-containers needs, from the system's packages, if it is missing; needs root
	@($(HAS_CONTAINER_TOOLS)) >/dev/null || $(APT_INSTALL) || { apt-get update && $(APT_INSTALL); }

image: ## The image `manyhands`, by docker or podman, whichever works
	@test -n "$(ENGINE)" || { echo "make image needs docker (with its daemon) or podman" >&2; exit 1; }
	$(ENGINE) build --tag manyhands $(ARGS) .

test-containers: setup ## The image built, and the three compose files run in containers by podman; needs root
	$(PY) -m tests.containers $(ARGS)

release: $(VENV)/.installed ## dist/: wheel, sdist, image, checksums, and what the changelog says of them
	@$(MAKE) --no-print-directory image
	@$(PY) deploy/release.py $(ENGINE)

lock: $(VENV)/.installed ## Resolve the dependencies anew
	$(PYTHON) -m uv pip compile --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --upgrade --extra dev pyproject.toml -o requirements/dev.lock
	$(PYTHON) -m uv pip compile --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header --extra all \
		-c requirements/dev.lock pyproject.toml -o requirements/runtime.lock
	echo 'hatchling' | $(PYTHON) -m uv pip compile --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header -c requirements/dev.lock - -o requirements/build.lock

clean: ## Remove the environment and the built servers
	rm -rf $(VENV) .cache
