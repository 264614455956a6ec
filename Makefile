# `make check` runs what CI runs (but for the checks that need PyTorch: `make check-torch`).
PYTHON ?= .venv/bin/python
TOOL = $(PYTHON) -m
DOCUMENTS = README.md CONTRIBUTING.md formulas.md $(wildcard docs/*.md)

.PHONY: check lint types test docs-fresh docs pictures site page dist golden records defaults measured presets check-torch ledger peers cuda calibrate-report long exhaustive explore fuzz benchmark venv

check: lint types test docs-fresh site

lint:
	$(TOOL) ruff check .
	$(TOOL) ruff format --check .

types:
	$(TOOL) mypy

test:
	$(TOOL) pytest

docs-fresh:
	$(TOOL) tools.docs $(DOCUMENTS)

docs:
	$(TOOL) tools.docs --write $(DOCUMENTS)

pictures: # of the course, into docs/pictures/; `make test` fails where one is out of date
	$(TOOL) tools.pictures --write

site: # into site/, and into site/calculator the page that runs tfcalc, where npm is; needs the dependency group docs
	NO_MKDOCS_2_WARNING=1 $(TOOL) mkdocs build --quiet
	$(TOOL) tools.page site/calculator --optional
	$(TOOL) tools.links site

page: # tfcalc in a browser, into site/calculator; needs npm and the network. tfcalc web serves it
	$(TOOL) tools.page site/calculator

dist: # the same bytes for the same commit (without git: for the same files); needs the dependency group package
	rm -rf dist
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 1580601600)} $(TOOL) build
	$(TOOL) twine check --strict dist/*

golden:
	$(TOOL) pytest tests/golden tests/corpus --overwrite

records: # what the nets of refactorings know of each model type, and how large the rooms are; read the diff
	$(TOOL) pytest tests/laws/test_modules.py tests/laws/test_peaks.py tests/corpus --overwrite
	$(TOOL) tests.laws.house --write
	$(TOOL) tools.docs --write docs/reference.md docs/accuracy.md

defaults: # the index of families and what transformers declares; needs transformers
	$(TOOL) tools.defaults --write

measured: # make measured TYPE=olmo3: how far the saved bytes are from PyTorch's, appended; needs transformers
	$(TOOL) tests.verify.compare_memory $(TYPE) --draws 3 --write src/tfcalc/training/measured.csv

presets: # what a list of the presets says of each
	$(TOOL) tools.presets --write

check-torch:
	$(TOOL) pytest -m torch

ledger: # tfcalc is asked about all measurements anew, and docs/ledger.md is written; a minute
	$(TOOL) benchmarks.ledger
	$(TOOL) tools.docs --write docs/ledger.md

PEERS ?= .peers
peers: # the peers of the ledger, asked anew in environments of their own in .peers; ten minutes, 2.3 GB, and the network
	$(TOOL) benchmarks.ledger.environments $(PEERS); code=$$?; $(TOOL) tools.docs --write docs/ledger.md && exit $$code

OUTPUT ?= real-runs-of-this-gpu.jsonl
cuda: # small models trained on the first GPU, recorded, and tfcalc's numbers beside; needs PyTorch with CUDA, transformers
	$(TOOL) tests.cuda.record -o $(OUTPUT)
	$(TOOL) tests.real_runs --rows $(OUTPUT)

calibrate-report: # errors of estimates of serving, by rates fitted to all other systems; takes six minutes of the processor
	$(TOOL) tools.fit_serving --left-out 14

# Tests that take minutes: all formulas of all presets.
long:
	$(TOOL) pytest -m long

# Those, and the cases that CI has no time for.
exhaustive:
	$(TOOL) pytest -m "long or exhaustive"

# The property tests with many new random examples.
explore:
	$(TOOL) pytest --hypothesis-profile=explore -m hypothesis

# Hostile inputs for every parser and the whole program: make fuzz N=1000000 SEED=7, or MINUTES=10, or KINDS=program
N ?= 20000
SEED ?= 1
MINUTES ?= 0
KINDS ?= program,parsers,attacks
fuzz:
	$(TOOL) tools.fuzz --n $(N) --seed $(SEED) --minutes $(MINUTES) --kinds $(KINDS)

benchmark:
	$(PYTHON) benchmarks/start_up.py
	$(PYTHON) benchmarks/evaluations.py
	$(PYTHON) -m benchmarks.budgets
	$(PYTHON) benchmarks/sweeps.py
	$(PYTHON) -m benchmarks.layouts
	$(PYTHON) -m benchmarks.serving

venv:
	python3 -m venv .venv
	.venv/bin/pip install -q -U pip
	.venv/bin/pip install -q -e . --group dev
