PYTHON ?= python3
BIN = .venv/bin

.PHONY: demo test check format bench chaos recipes clean

demo: .venv/run.ready  ## set up, import a sample history, ask it three questions
	$(BIN)/twofold demo

test: .venv/dev.ready  ## set up and run the tests
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

check: .venv/dev.ready  ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/dev.ready  ## speed at 100,000 episodes; some minutes
	$(BIN)/python -m benchmarks.speed

chaos: .venv/dev.ready  ## kill -9, twenty times each during adds and imports, during deliveries, and of the service under load; SIGTERM
	$(BIN)/python -m benchmarks.chaos --rounds 20
	$(BIN)/python -m benchmarks.chaos_service --rounds 6
	$(BIN)/python -m benchmarks.chaos_delivery --rounds 50

recipes: .venv/dev.ready requirements/recipes.txt  ## the recipes for LangChain and LlamaIndex with the real packages
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/recipes.txt
	$(BIN)/python -m pytest tests/recipes -W default

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/pip:
	$(PYTHON) -c 'import sys; sys.exit("Twofold needs Python 3.11 or newer; name one with: make PYTHON=python3.12") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv .venv

.venv/run.ready: .venv/bin/pip requirements/run.txt pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/run.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

.venv/dev.ready: .venv/run.ready requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	touch $@
