# Standfast. Every target makes its own virtual environment when there is none, so each works first and alone.
#
# .venv/.installed is the stamp: it is older than pyproject.toml when something has to be installed again.

# What is installed is compiled when it is first imported, which costs less than to compile all of it, if it is kept.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run example test lint prove simulate bench game instructions pictures

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := $(VENV)/peers
PEERS_STAMP := $(PEERS)/.installed
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
USABLE := import pip; $(NEW_ENOUGH)

ARGS ?=
NAME ?=
SEEDS ?= 2000

help: ## list the targets
	@awk -F ' ## ' '/^[a-z]+:.* ## / { sub(/:.*/, "", $$1); printf "  make %-13s %s\n", $$1, $$2 }' Makefile

run: $(STAMP) ## watch an example shop work (ARGS=--once: tell the story and end)
	@$(BIN)/python examples/demo.py $(ARGS)

example: $(STAMP) ## a web app that runs its own jobs: make example NAME=fastapi (or flask, django)
	@test -f "examples/web/$(NAME)_shop.py" || \
	  { echo 'make: say which, as in: make example NAME=fastapi (or flask, django)' >&2; exit 2; }
	@$(BIN)/python examples/web/$(NAME)_shop.py

test: $(STAMP) ## lint and run all tests (ARGS="-k name" picks some)
	@$(BIN)/python tests/parts.py $(ARGS)

lint: $(STAMP) ## check style, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

prove: $(STAMP) ## run tests at full size: make prove NAME=kill
	@test -n "$(NAME)" || { echo 'make: say which, as in: make prove NAME=kill' >&2; exit 2; }
	STANDFAST_PROVE=1 $(BIN)/python -m pytest tests -k "$(NAME)" -v --timeout 3600 $(ARGS)

simulate: $(STAMP) ## run the simulator over many seeds: make simulate SEEDS=2000
	PYTHONPATH=tests $(BIN)/python -m simulator --seeds $(SEEDS) $(ARGS)

bench: $(STAMP) $(PEERS_STAMP) ## measure beside bare drivers and the peers (ARGS="postgres --jobs 3000 --rounds 1")
	@PATH="$$($(BIN)/python bench/newer_redis.py $(VENV)/redis):$$PATH" BENCH_PEERS_PYTHON=$(PEERS)/bin/python \
	  $(BIN)/python bench $(ARGS)

game: $(STAMP) ## play the scheduling game (ARGS="--duration 60 --strategy all")
	@PYTHONPATH=bench $(BIN)/python -m game $(ARGS)

instructions: $(STAMP) ## count what a job costs, steadier than time; needs valgrind (ARGS="sqlite --jobs 300")
	@$(BIN)/python bench/hot_path.py $(ARGS)

pictures: $(STAMP) ## take pictures of the dashboard for docs/ (ARGS="--seconds 90")
	@$(BIN)/python tests/pictures.py $(ARGS)

$(STAMP): pyproject.toml
	@if ! $(BIN)/python -c '$(USABLE)' 2>/dev/null; then \
	  found=; \
	  for python in $(PYTHONS); do \
	    if $$python -c '$(NEW_ENOUGH)' 2>/dev/null; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo 'make: Standfast needs Python 3.11 or newer, and none of these is: $(PYTHONS)' >&2; exit 1; \
	  fi; \
	  echo "Making a virtual environment in $(VENV) with $$($$found --version)"; \
	  $$found -m venv --clear $(VENV) || exit 1; \
	fi
	@echo 'Installing Standfast and its tools into $(VENV) (only when pyproject.toml changes)'
	@$(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --no-compile --editable . --group dev
	@touch $@

$(PEERS_STAMP): pyproject.toml | $(STAMP)
	@echo 'Installing what Standfast is measured beside into $(PEERS)'
	@$(BIN)/python -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --no-input --disable-pip-version-check 'pip>=25.1'
	@$(PEERS)/bin/python -m pip install --quiet --no-input --disable-pip-version-check --group peers
	@touch $@
