# make run    install into .venv and show Ormah at work on a fresh vault
# make check  within a minute, between two edits: formatting, lint, types, unit and architecture tests
# make test   install and pass the whole suite (formatting, lint, types, tests): what has to hold before anything lands
# make soak   the acceptance lines' full counts, and fifty times as many random examples, other ones each time (long)
# make bench  figures, printed; kept by hand in tests/bench/README.md
# make page-test  the page in a real browser; skipped where no Chromium is installed
# make lint   formatting, lint and types alone, and the size of the product; make format mends the first two

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
COMPILED := $(VENV)/.compiled

# Bytecode is kept, whatever the shell says: the suite starts hundreds of daemons, and each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run check test page-test lint format soak bench install clean

install: $(STAMP)

# torch first and pinned (constraints.txt): left to itself pip fetches the CUDA build, several GB that nothing here uses. Python
# compiles what is imported (the last line: once, not in every process of the suite); compiling all that is installed takes longer
# and 300 MB more. tests/versions.txt: the same versions on every machine, so that the suite gives the same verdict on each.
$(STAMP): pyproject.toml constraints.txt tests/versions.txt models/multilingual/convert.py models/multilingual/setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --constraint tests/versions.txt torch
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --constraint tests/versions.txt --editable '.[torch]' --group dev
	$(BIN)/python -m pip install --quiet --no-compile --no-deps ./models/multilingual
	$(BIN)/python -c 'import chromadb, sentence_transformers'
	touch $(STAMP)

# pytest rewrites the assertions of every test file and keeps the bytecode: once, before workers do it side by side, each for itself.
# What cannot be imported is told by the run that follows.
$(COMPILED): $(STAMP)
	-$(BIN)/pytest --collect-only -q -q > /dev/null
	touch $(COMPILED)

run: install
	$(BIN)/python tests/tour.py

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/vulture
	@echo "product: $$(find ormahd ormahctl -name '*.py' | wc -l) files, $$(find ormahd ormahctl -name '*.py' -exec cat {} + | wc -l) lines"

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint $(COMPILED)
	$(BIN)/pytest tests/architecture tests/unit -m "not soak" -n 2 --dist loadfile

# Most tests wait for processes, disks and quiet files: six at a time keep two cores busy, four left a third of them idle. In the
# order of the folders: the files with the most tests first, as xdist would have it, leaves the long ones for the end. Types are
# checked beside pytest's first look at the files. Where something is broken for all, the run ends and says so (--maxfail,
# --session-timeout) before a CI service would cut it off.
test: install
	$(MAKE) --jobs 2 --output-sync lint $(COMPILED)
	$(BIN)/pytest -m "not soak and not bench and not browser" -n 6 --dist loadfile --no-loadscope-reorder \
		--maxfail 20 --session-timeout 4000

# ORMAH_SCREENSHOTS=docs/page make page-test: makes the pictures of docs/page.md anew, too.
page-test: install
	$(BIN)/pytest tests/browser -m browser -rs -n 2 --dist loadfile

soak: install
	$(BIN)/pytest -m "soak or hypothesis" --hypothesis-profile soak --timeout 14400 -rA

bench: install
	$(BIN)/python -m tests.bench

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
