# `make check` runs what CI runs (but for the checks that need PyTorch: `make check-torch`).
PYTHON ?= .venv/bin/python
TOOL = $(PYTHON) -m

.PHONY: check lint types test docs-fresh docs golden check-torch benchmark venv

check: lint types test docs-fresh

lint:
	$(TOOL) ruff check .
	$(TOOL) ruff format --check .

types:
	$(TOOL) mypy

test:
	$(TOOL) pytest

docs-fresh:
	$(TOOL) tools.docs README.md CONTRIBUTING.md formulas.md

docs:
	$(TOOL) tools.docs --write README.md CONTRIBUTING.md formulas.md

golden:
	$(TOOL) pytest tests/golden --overwrite

check-torch:
	$(TOOL) pytest -m torch

benchmark:
	$(PYTHON) benchmarks/start_up.py
	$(PYTHON) benchmarks/evaluations.py

venv:
	python3 -m venv .venv
	.venv/bin/pip install -q -U pip
	.venv/bin/pip install -q -e . --group dev
