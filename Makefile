# Every target sets itself up: a fresh clone, Python 3.11+ and make are enough.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

STUDIES := figure1 figure2 figure3 figure4 networks circles label-fractions starts theory

.PHONY: help setup demo test test-slow test-torch coverage lint bench study clean
help:
	@echo "make demo   fit breast-cancer data over 8 sites, pictures in out/"
	@echo "make test   the test suite"
	@echo "make test-slow  the long tests of sites and messages (about an hour)"
	@echo "make test-torch  the tests of PyTorch's tensors, if .venv has PyTorch (a CPU build is enough)"
	@echo "make coverage  which lines the test suite runs; pages in out/coverage"
	@echo "make lint   ruff, strict mypy and the order of imports"
	@echo "make bench  against scikit-learn and this machine's limits, one report; real sites against their engine, the journal against SQLite; in out/benchmarks (twenty minutes)"
	@echo "make study  the paper's simulation studies, reduced, in out/studies (about twelve minutes)"
	@echo "make setup  only the environment, in .venv"

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gaussip needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

setup: $(READY)

demo: $(READY)
	$(BIN)/gaussip demo --out out

test: $(READY)
	$(BIN)/python -m pytest -n 2

test-slow: $(READY)
	$(BIN)/python -m pytest -n 2 -m slow

test-torch: $(READY)
	@$(BIN)/python -c 'import torch' || { echo "install PyTorch first: $(BIN)/python -m pip install torch"; exit 2; }
	$(BIN)/python -m pytest -n 2 tests/test_torch.py tests/test_xray_features.py tests/test_gpu.py

coverage: $(READY)
	@mkdir -p out
	COVERAGE_FILE=$(CURDIR)/out/.coverage $(BIN)/python -m pytest -n 2 --cov --cov-report=term:skip-covered --cov-report=html:out/coverage

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

bench: $(READY)
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/sites.py
	$(BIN)/python benchmarks/journal.py

study: $(READY)
	@for name in $(STUDIES); do \
		$(BIN)/gaussip study run $$name --replicates 3 --rounds 3000 --out out/studies/$$name || exit $$?; \
	done

clean:
	rm -rf .venv out build dist .pytest_cache .mypy_cache .ruff_cache
