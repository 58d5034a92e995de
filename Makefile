# Two commands are enough: `make demo` shows what Ringfence does, `make test` shows that it works. Each sets everything up first.

VENV := .venv
BIN := $(VENV)/bin
TOOLS := $(VENV)/tools
STAMP := $(VENV)/.set-up
HOST := connectors/java/ringfence-connect-host.jar
CLASSES := $(VENV)/.spark-classes
HELM := v3.19.5
ARGS ?=

# The first Python on the PATH that is new enough. Set PYTHON=/path/to/python to override it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)

IMAGE_PYTHON = $(shell sed -n 's/^FROM python:\([0-9.]*\)-.*/\1/p' Dockerfile)

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-debezium demo-postgres up test test-pure test-thorough test-all fuzz chaos mutate bench reports golden font screenshots lint format chart chart-server otelcol audit sbom lock changelog clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' Makefile

setup: $(STAMP) $(HOST) $(CLASSES) ## Create .venv with everything in it; do nothing if it is up to date

# A file and not `setup` itself: it is older than pyproject.toml or constraints.txt exactly when there is work to do.
$(STAMP): pyproject.toml constraints.txt
	@if [ -z "$(PYTHON)" ]; then \
		echo "Python 3.11 or newer is needed, found none: apt-get install python3 python3-venv, or make PYTHON=/path/to/python" >&2; exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or newer is needed, $(PYTHON) is not: make PYTHON=/path/to/python" >&2; exit 1; }
	@version=$$($(JAVA) -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1); \
	if [ "$${version:-0}" -lt 17 ]; then \
		echo "Java 17 or newer is needed, found $${version:-none}: apt-get install openjdk-17-jre-headless, or set JAVA_HOME" >&2; exit 1; fi
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV) || { \
		echo "$(PYTHON) cannot create a virtual environment: apt-get install python3-venv" >&2; exit 1; }
	@echo "Installing Python packages into $(VENV), 1.8 GB on disk; pip prints each download with its size. This takes a few minutes."
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true # pip would do it on one processor, and ignores what cannot be
	@touch $(STAMP)

# Without Java's jars at hand it is compiled when it is first needed.
$(HOST): $(STAMP) $(wildcard connectors/java/host/*)
	-@$(BIN)/python -m ringfence.local.java_host && touch $(HOST)

# Without the archive Spark's drivers start, too: with twice the CPU time.
$(CLASSES): $(STAMP)
	-@$(BIN)/python -m ringfence.local.class_archives 2>/dev/null && touch $(CLASSES)

demo: setup ## Run the main job on 336,776 real flights, kill it half-way, and count what arrived
	$(BIN)/ringfence demo $(ARGS)

demo-debezium: setup ## Run Debezium against a private PostgreSQL, kill its Java processes, and count the rows
	$(BIN)/python -m tools.demo_debezium $(ARGS)

demo-postgres: setup ## Move money between accounts of a private PostgreSQL, kill everything in turns, and check the books
	$(BIN)/python -m tools.demo_postgres $(ARGS)

up: setup ## Run everything on this machine, in the foreground
	$(BIN)/ringfence up $(ARGS)

# Without ARGS, the tests run in four processes, which halves the time: they wait for a broker more than they compute.
# One that fails among the others is run once more, alone (CONTRIBUTING.md, "Unsteady tests").
CASES ?= not slow and not thorough
PROCESSES = --numprocesses 4 --no-loadscope-reorder --retry-alone tests/unsteady.txt

test: setup ## Run all tests except the long ones (ARGS="-k fence" for some of them)
	$(BIN)/pytest -m "$(CASES)" $(if $(ARGS),$(ARGS),$(PROCESSES))

test-pure: setup ## Run the tests that need no Java, broker, browser, Spark or database: about a minute
	RINGFENCE_TESTS_PURE=1 $(BIN)/pytest --exitfirst $(if $(ARGS),$(ARGS),--numprocesses 3 --no-loadscope-reorder)

test-thorough: setup ## Run more cases of what `make test` shows, as continuous integration does
	$(BIN)/pytest -m "thorough and not slow" $(if $(ARGS),$(ARGS),$(PROCESSES))

test-all: setup ## Run all tests
	$(BIN)/pytest $(ARGS)

fuzz: setup ## Give every parser of foreign bytes changed inputs (FUZZ_SECONDS for each of them, 600 unless set)
	FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) $(BIN)/pytest tests/security/fuzzing $(ARGS)

chaos: setup ## Kill processes for minutes, and count the records: none missing, none twice
	$(BIN)/pytest tests/chaos -s $(ARGS)

reports: setup ## Check our own connectors with the compatibility suite, and write the reports that the catalog shows
	RINGFENCE_WRITE_REPORTS=1 $(BIN)/pytest tests/compatibility/test_builtin.py -k connectors_pass

mutate: setup ## Change the kernel's pure modules in small ways, and list what no fast test notices (half an hour)
	nice $(BIN)/python -m tools.mutate $(ARGS)

bench: setup ## Compare with the real Kafka Connect: records/s, CPU and memory
	$(BIN)/python -m benchmarks $(ARGS)

golden: setup ## Generate the expected results again with Kafka Connect's own transforms and converters (needs javac)
	$(BIN)/python -m tools.golden

font: setup ## Make the pages' font again from Inter's package on npm (needs npm)
	$(BIN)/python -m tools.font

screenshots: setup ## Take the screenshots in docs/screenshots again (needs Chromium; takes a quarter of an hour)
	$(BIN)/python -m tools.screenshots

lint: setup ## Check style, types and the imports between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/djangofmt --check templates
	$(BIN)/djangofmt check templates
	$(BIN)/oxlint --deny-warnings static
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if [ -e platform/__init__.py ]; then \
		echo "platform/__init__.py hides the standard library's platform module: delete it" >&2; exit 1; fi

format: setup ## Fix the style
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/djangofmt templates

chart: setup $(TOOLS)/bin/helm ## Lint, render and validate the Helm chart (needs Go, which builds helm)
	$(BIN)/pytest tests/deployment/test_helm.py $(ARGS)

chart-server: setup $(TOOLS)/bin/helm $(TOOLS)/bin/kube-apiserver ## The same with a real API server, which Go builds (needs etcd)
	$(BIN)/pytest tests/deployment/test_helm.py $(ARGS)

otelcol: setup $(TOOLS)/bin/otelcol ## Test OTLP with OpenTelemetry's collector (needs Go, which builds it)
	$(BIN)/pytest tests/local/test_telemetry.py $(ARGS)

audit: $(TOOLS)/bin/pip-audit ## Check the Python packages for known vulnerabilities (needs the network)
	@PATH="$(CURDIR)/$(TOOLS)/bin:$$PATH" $(PYTHON) -m tools.audit $(ARGS)

sbom: setup ## Write build/sbom.json: every Python package and jar of the image, with hashes (CycloneDX)
	@$(BIN)/python -m tools.sbom $(ARGS)

lock: setup $(TOOLS)/bin/uv ## Write constraints.txt from the installed packages, and requirements.lock with the image's hashes
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/pip freeze --all --exclude pip --exclude-editable; } > constraints.new && mv constraints.new constraints.txt
	@{ sed -n '/^#/p' requirements.lock; echo setuptools | $(TOOLS)/bin/uv pip compile --quiet --no-header --no-annotate --generate-hashes \
		--constraint constraints.txt --python-version $(IMAGE_PYTHON) --python-platform linux --extra otlp --extra postgres --extra schema-registry \
		pyproject.toml -; } > requirements.new && mv requirements.new requirements.lock

changelog: $(TOOLS)/bin/towncrier ## Move the notes of docs/changes into CHANGELOG.md, under VERSION=1.2.3
	@if [ -z "$(VERSION)" ]; then echo "Say which version: make changelog VERSION=1.2.3" >&2; exit 1; fi
	@$(TOOLS)/bin/towncrier build --yes --version $(VERSION)

# Beside the environment, so that what is installed there stays what constraints.txt says.
$(TOOLS)/bin/%:
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --disable-pip-version-check $*

# Nobody who has another helm on the PATH needs this one, but the tests are for this version. It is moved to its place,
# as tests that run at the same time may find it there.
$(TOOLS)/bin/helm:
	@command -v go >/dev/null || { echo "Go is needed to build helm: https://go.dev/doc/install" >&2; exit 1; }
	@echo "Building helm $(HELM), which takes some minutes of CPU time."
	@GOBIN="$(CURDIR)/$(TOOLS)/new" nice go install helm.sh/helm/v3/cmd/helm@$(HELM)
	@mkdir -p $(@D) && mv $(TOOLS)/new/helm $@

# With the definitions of the Prometheus operator's resources, as the operator generates them.
KUBERNETES := $(CURDIR)/tests/deployment/kubernetes
STAMPED = -X k8s.io/component-base/version.gitVersion=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
$(TOOLS)/bin/kube-apiserver: $(wildcard tests/deployment/kubernetes/go.*)
	@command -v go >/dev/null || { echo "Go is needed to build kube-apiserver: https://go.dev/doc/install" >&2; exit 1; }
	@echo "Building kube-apiserver, which takes eight minutes of CPU time."
	@cd $(KUBERNETES) && export GOBIN="$(CURDIR)/$(TOOLS)/bin" && nice go install -ldflags "-s -w $(STAMPED)" tool && \
		"$$GOBIN/controller-gen" crd:maxDescLen=0 output:crd:dir="$(CURDIR)/$(TOOLS)/crds" \
		paths=github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1

$(TOOLS)/bin/otelcol: $(wildcard tests/support/otel_collector/*)
	@command -v go >/dev/null || { echo "Go is needed to build the collector: https://go.dev/doc/install" >&2; exit 1; }
	@echo "Building OpenTelemetry's collector, which takes some minutes of CPU time."
	@mkdir -p $(TOOLS)/bin && cd tests/support/otel_collector && nice go build -ldflags "-s -w" -o "$(CURDIR)/$@.new" .
	@mv $@.new $@

clean: ## Remove the files that tools leave behind (.venv and downloads stay)
	rm -rf .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist spark-warehouse
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
