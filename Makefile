# make demo   on this machine's CPU: lints and grades two bundled submissions, an honest one and a leaking one, and has a
#             coding agent with a scripted model write a third in a sealed room
# make test   everything CI checks: ruff, mypy --strict, pytest, generated docs, the linter's cost, the stored evidence and
#             results of the deck; of dear tests a part, another at each commit (tests/shares.py; make test-full: all)
# They make .venv themselves; they need Python 3.11 or newer, make and a package index.

SHELL := /bin/sh
.SHELLFLAGS := -euc
.DELETE_ON_ERROR:
.PHONY: agents matrix demo quick test test-full core lint format types unit docs docs-check wheel seed-audit bench-lint bench-grade bench-stats bench-board evade verify-deck results verify-results lint-cost ranges mutate ceilings fuzz accuracy clean

VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
PYTEST_ARGS ?=
CHECKS ?=
SINCE ?= HEAD
BENCH_ARGS ?=
AGENTS ?= claude codex opencode kimi gemini
FUZZ_ARGS ?=
# As many test processes as there are cores, whatever OpenMP is told: kernels compile and interpret on one each.
JOBS ?= $(shell env -u OMP_NUM_THREADS nproc 2>/dev/null || echo 2)

# What draws which of the dear tests run, and which of their cases (tests/shares.py); when it is empty, all run.
TURN ?= $(shell git rev-parse HEAD 2>/dev/null || echo none)

# The leaking submission is graded twice: its number stands beside the verdict, and --strict gives none. The agent is
# Claude Code where npm is there, else our own tiny one; its model is a script, so nothing is asked of anybody.
DEMO := examples/01_fp8_gemm
demo: $(VENV)/.harness
	rm -rf kbh-results/demo kbh-runs/demo
	$(BIN)/kbh-lint --exit-zero --no-cache $(DEMO)
	$(BIN)/kbh grade --target cpu --samples 3 --out kbh-results/demo -v $(DEMO)/honest.py
	$(BIN)/kbh grade --target cpu --samples 3 --no-evidence --out kbh-results/demo -v $(DEMO)/leaking.py || test $$? = 1
	$(BIN)/kbh grade --target cpu --strict --out kbh-results/demo -v $(DEMO)/leaking.py || test $$? = 1
	@echo
	@$(BIN)/kbh show --format short --html demo.html kbh-results/demo/*
	@echo
	@agent=mini; if command -v npm >/dev/null && $(BIN)/kbh agents install claude; then agent=claude; fi; \
	room=""; command -v bwrap >/dev/null || room="--no-sandbox"; \
	$(BIN)/kbh run $$agent scripted/demo 01_fp8_gemm --script examples/agents/01_fp8_gemm.yaml --target cpu \
	  --budget 15m --samples 3 --out kbh-runs/demo $$room
	@$(BIN)/kbh view kbh-runs/demo/* -o demo-run.html
	@echo "The gradings are in demo.html, the agent's run in demo-run.html; kbh show --verify kbh-results/demo/* checks them."

# All but pytest side by side: what loads from the network beside what computes. CHECKS names targets to add.
test: $(VENV)/.dev
	$(MAKE) -j $(JOBS) $(if $(filter output-sync,$(.FEATURES)),-O) \
	  agents lint types docs-check lint-cost verify-deck verify-results $(CHECKS)
	$(MAKE) unit

# The same with all tests and all of their cases: before a release, after a change of what many of them are about, and once a day.
test-full:
	$(MAKE) test TURN=

# What is not committed yet: ruff, mypy and the nearest tests, in under a minute; SINCE=main for a whole branch.
quick: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(PY) tools/quick.py --since $(SINCE)

# What needs no torch, for another version of Python: make core VENV=.venv-3.13 PYTHON=python3.13
core: docs-check
	$(PY) -W error -m compileall -q -f kbh_lint grader harness bench tools
	$(BIN)/kbh-lint --no-cache problems/

# The same for Python 3.MINOR, in an environment of its own: make core-3.13
core-3.%:
	$(MAKE) core VENV=.venv-3.$* PYTHON=python3.$*

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

# On a machine under load its workers may not start in time: then it is asked again without any.
types: $(VENV)/.dev
	MYPY_NUM_WORKERS=$(JOBS) $(BIN)/mypy || MYPY_NUM_WORKERS=0 $(BIN)/mypy

# Half as many processes again as there are cores: many tests wait for processes of their own, and for their time to end.
unit: agents
	KBH_TURN=$(TURN) OMP_NUM_THREADS=1 $(BIN)/pytest -n $$(( $(JOBS) * 3 / 2 )) --dist worksteal $(PYTEST_ARGS)

docs: $(VENV)/.core
	$(PY) -m kbh_lint.docs docs/rules
	$(PY) tools/readme.py
	$(PY) -m tools.tables

docs-check: $(VENV)/.core
	$(PY) -m kbh_lint.docs docs/rules --check
	$(PY) tools/readme.py --check
	$(PY) -m tools.tables --check

# CORPUS holds one RUN_ID.py a published run, LABELS their published verdicts; lines are named, nothing is quoted.
seed-audit: $(VENV)/.core
	@test -n "$(CORPUS)" && test -n "$(LABELS)" || { echo "usage: make seed-audit CORPUS=DIR LABELS=FILE" >&2; exit 2; }
	$(PY) tools/seed_audit.py "$(CORPUS)" "$(LABELS)" -o docs/seed-audit.md

# Precision and recall on labelled submissions, beside public checkers where PEERS names their checkouts
# (PEERS="--kernelbench DIR --kernelguard DIR").
accuracy: $(VENV)/.core
	@test -n "$(CORPUS)" && test -n "$(LABELS)" || { echo "usage: make accuracy CORPUS=DIR LABELS=FILE" >&2; exit 2; }
	$(PY) tools/accuracy.py "$(CORPUS)" "$(LABELS)" $(PEERS) -o docs/accuracy.md

# CORPUS is a folder of submissions; prints what linting costs beside what parsing alone costs.
bench-lint: $(VENV)/.core
	@test -n "$(CORPUS)" || { echo "say which submissions: make bench-lint CORPUS=DIR" >&2; exit 2; }
	$(PY) bench/lint.py "$(CORPUS)"

# What linting the deck's solutions costs beside parsing them, in CPU: new analyses may not cost more unnoticed. 6 s.
lint-cost: $(VENV)/.core
	OMP_NUM_THREADS=1 $(PY) bench/lint.py --check

# Rewrites the examples of all rules, CORPUS (leaking submissions, may be empty) and the honest programs here, and lints them again.
evade: $(VENV)/.dev
	$(BIN)/kbh-lint evade --check --jobs $(JOBS) $(CORPUS)
	$(BIN)/kbh-lint leakify --check --jobs $(JOBS) problems tests/variants
	$(BIN)/kbh-lint leakify --check --jobs $(JOBS) --no-rules --problem 01_fp8_gemm tests/idioms/fp8
	$(BIN)/kbh-lint leakify --check --jobs $(JOBS) --no-rules --problem 07_w4a16_gemm tests/idioms/int4
	$(BIN)/kbh-lint leakify --check --jobs $(JOBS) --no-rules --problem 04_kahan_softmax tests/idioms/kahan

# What `kbh grade` costs beside bench/naive.py; the goal is 1.0 times and 15 s. With BENCH_ARGS="--repeat 5 --device cuda": how
# far scored times vary between gradings, and how claimed times agree with a tracer's.
bench-grade: $(VENV)/.dev
	$(PY) bench/grade.py $(BENCH_ARGS)

# How often the intervals of boards hold the truth; BENCH_ARGS=--write keeps the figures for docs/statistics.md.
bench-stats: $(VENV)/.dev
	$(PY) bench/coverage.py --check --jobs $(JOBS) $(BENCH_ARGS)

# What the pages of 100, 1,000 and 10,000 made-up trials cost, and how soon they paint.
bench-board: $(VENV)/.dev
	$(PY) bench/board.py --check $(BENCH_ARGS)

# Holds the stored GPU evidence of every problem against the files as they are, and lints every solution of the deck.
verify-deck: $(VENV)/.dev
	$(BIN)/kbh problems verify

# What was graded on a GPU: the page is written from the bundles in results/, and held against their samples. After a new
# grading: `python tools/results.py FOLDER/h200 -o docs/results-h200.md --pack results/h200.tar.xz`.
results: $(VENV)/.grade
	$(PY) tools/results.py results/h200.tar.xz -o docs/results-h200.md

verify-results: $(VENV)/.grade
	$(PY) tools/results.py results/h200.tar.xz -o docs/results-h200.md --check
	$(PY) bench/real.py page results/real/h100.json results/real/h200.json -o docs/results-real.md --check

# The linter's answers do not depend on its libraries' versions: the lowest and the newest that pyproject.toml allows.
ranges: $(VENV)/.core
	$(PY) tools/ranges.py examples tests/idioms problems/*/honest problems/*/decoys

# Runs every wrong kernel of the deck at reduced shapes.
mutate: $(VENV)/.dev
	$(BIN)/kbh problems mutate

# The agents' CLIs that the tests run, where npm is there: 1.4 GB, once. Without them those tests are skipped.
agents: $(VENV)/.dev
	if command -v npm >/dev/null; then $(BIN)/kbh agents install $(AGENTS) || echo "the tests of these CLIs are skipped"; fi

# Every CLI in a sealed room against a scripted model, in all ways in which a provider fails; docs/agents.md has the table.
matrix: agents
	$(PY) bench/agents.py --check --table docs/agents.md

# The least time of every shape on every target, and what was measured beside it.
ceilings: $(VENV)/.core
	$(BIN)/kbh problems ceilings

# Feeds damaged text to every reader, ten minutes each, led by coverage; FUZZ_ARGS names readers and seconds.
fuzz: $(VENV)/.dev
	$(PIP) --editable '.[fuzz]'
	$(PY) tools/fuzz.py $(FUZZ_ARGS)

wheel: $(VENV)/.dev
	rm -rf dist
	$(PY) -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .

$(VENV)/.python:
	@found=""; \
	for python in "$${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14; do \
	  if command -v "$$python" >/dev/null && "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	    found="$$python"; break; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then echo "kbh needs Python 3.11 or newer; set PYTHON=/path/to/python" >&2; exit 2; fi; \
	test -x $(PY) || "$$found" -m venv $(VENV) || \
	  { echo "cannot make $(VENV): install the venv module of $$found (on Debian: python3-venv)" >&2; exit 2; }; \
	test -x $(BIN)/pip || $(PY) -m ensurepip --default-pip >/dev/null; \
	touch $@

# Byte code is compiled here because some machines forbid writing it at run time, which makes every start slower.
$(VENV)/.core: $(VENV)/.python pyproject.toml constraints.txt
	$(PIP) --editable .
	$(PY) -m compileall -q kbh_lint
	touch $@

$(VENV)/.grade: $(VENV)/.core
	$(PIP) --editable '.[grade]'
	$(PY) -m compileall -q grader harness
	touch $@

$(VENV)/.harness: $(VENV)/.grade
	$(PIP) --editable '.[harness]'
	touch $@

$(VENV)/.dev: $(VENV)/.grade
	$(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .venv-* dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .kbh-cache kbh-results kbh-runs kbh-replays demo.html demo-run.html
