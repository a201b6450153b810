# `make demo` and `make test` set everything up on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
UV := .tools/bin/uv
BIN := .venv/bin
export UV_PYTHON_DOWNLOADS := never
export UV_COMPILE_BYTECODE := 1
# A file's tests share what they have built, so a file stays with one worker.
# Tests wait much, for processes, servers and time limits, so there is one worker more than there are cores.
PARALLEL ?= -n $$(($$(nproc 2>/dev/null || echo 2) + 1)) --dist loadscope --no-loadscope-reorder

.PHONY: help setup demo test test-integration test-long reliability pages docs wheel lint format bench targets readiness findings clean
help:
	@echo "make demo       build, train and evaluate the quickstart experiment (under 6 minutes on 2 cores)"
	@echo "make test       the fast tests (3 minutes on 2 cores)"
	@echo "make test-integration  tests with processes, buckets, training and documents (18 minutes)"
	@echo "make test-long  the long forms of tests (hours)"
	@echo "make reliability  the long tests of reliability, and docs/reliability.md from what they counted (hours)"
	@echo "make lint       formatting, lint, types, import rules, lock file"
	@echo "make docs       the documentation as a site, in site/; a broken link fails"
	@echo "make wheel      the wheel and the source archive, in dist/, checked as the package index checks them"
	@echo "make targets    compilers of TPUs and NVIDIA GPUs, in .tools/targets (3.4 GB), for --dry-run --target"
	@echo "make readiness  compile the study for a TPU v4-64 and GPUs, and write docs/readiness.md (hours; resumes)"
	@echo "make findings   surprises of libraries and data, in findings/, each in its own environment (25 minutes)"
	@echo "make bench      every benchmark (quiet machine; minutes)"

$(UV):
	@echo "setup: installing uv into .tools"
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet --disable-pip-version-check uv==0.13.8

.venv/.synced: $(UV) pyproject.toml uv.lock
	@echo "setup: installing the locked packages into .venv (half a minute)"
	$(UV) sync --locked --quiet --python $(PYTHON) --extra hf --extra gcs --extra arc --extra ray --extra serve
	@touch $@

setup: .venv/.synced

demo: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh examples/demo.sh

test: setup
	$(BIN)/pytest -q -m "not slow and not integration" $(PARALLEL)

test-integration: setup
	$(BIN)/pytest -q -m "integration and not slow" $(PARALLEL)

test-long: setup
	$(BIN)/pytest -q -m slow $(PARALLEL)

# The long forms of the tests of reliability (about three hours; interrupted, `make reliability` starts from the beginning), then the page.
HARNESS := tests/harness tests/determinism/test_killed_build.py tests/trust/test_sql.py
reliability: setup
	TRM_RELIABILITY=docs/reliability.json $(BIN)/pytest -q $(HARNESS) --ignore tests/harness/test_page.py
	$(BIN)/python tests/harness/figures.py

# docs/experiments, from the registry.
pages: setup
	$(BIN)/python tools/pages.py docs/experiments

# libtpu and NVIDIA's compiler, of the versions that belong to the installed jax, beside the project's environment.
targets: setup
	$(UV) pip install --quiet --python $(BIN)/python --target .tools/targets --no-deps \
		$$($(BIN)/python -m trm_train.targets.catalog)

findings:
	@for script in findings/*.sh; do echo "== $$script"; sh $$script || exit 1; done

readiness: targets
	$(BIN)/python tools/readiness.py docs/readiness.md

# Not --quiet: what it does not say it does not count either.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "site/index.html"

wheel: setup
	rm -rf dist
	$(BIN)/hatchling build -d dist
	$(BIN)/twine check --strict dist/*

lint: setup
	$(UV) lock --check --quiet
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/python tools/prose.py
	$(BIN)/lint-imports
	$(BIN)/pyright

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.tools/peers/bin/reasoning-gym-is-there: $(UV)
	$(PYTHON) -m venv .tools/peers
	.tools/peers/bin/pip install --quiet --disable-pip-version-check reasoning-gym==0.1.25
	@touch $@

bench: setup .tools/peers/bin/reasoning-gym-is-there
	mkdir -p benchmarks/results
	for name in build generate loader step; do \
	  $(BIN)/python benchmarks/bench_$$name.py --json benchmarks/results/$$name.json || exit 1; done
	$(BIN)/python benchmarks/bench_choosing.py --json benchmarks/results/choosing.json
	for kind in maze arc; do \
	  $(BIN)/python benchmarks/bench_build.py --kind $$kind --json benchmarks/results/build_$$kind.json || exit 1; done
	$(BIN)/python benchmarks/bench_step.py --mixer attention --json benchmarks/results/step_attention.json
	$(BIN)/python benchmarks/bench_hosts.py --json benchmarks/results/hosts.json
	$(BIN)/python benchmarks/bench_memory.py --json benchmarks/results/memory.json
	$(BIN)/python benchmarks/bench_sql.py --json benchmarks/results/sql.json
	$(BIN)/python benchmarks/bench_dashboard.py --json benchmarks/results/dashboard.json
	root=$$(mktemp -d); PATH="$(CURDIR)/$(BIN):$$PATH" TRM_ROOT=$$root sh examples/demo.sh && \
	  $(BIN)/python benchmarks/bench_eval.py quickstart --root $$root --json benchmarks/results/eval.json
	$(BIN)/python benchmarks/render_docs.py

clean:
	rm -rf .venv .tools dist .cache .pytest_cache .ruff_cache .hypothesis
