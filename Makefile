# Everything a newcomer types. `make` alone lists the targets.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: help book test formats check-book notebook readme lock lint clean
.DEFAULT_GOAL := help

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

$(INSTALLED): requirements.lock pyproject.toml workflow/install.py
	@$(PYTHON) workflow/install.py

book: $(INSTALLED)  ## run every notebook, gate the outputs, build _build/html, the PDF, the offline zip
	@$(BIN)/snakemake --snakefile workflow/Snakefile --profile workflow/profiles/local
	@echo "The book is at _build/html/index.html - open it with: $(BIN)/python -m webbrowser -t file://$(CURDIR)/_build/html/index.html"

test: $(INSTALLED)  ## the test suite (without the built book)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

formats: $(INSTALLED)  ## the PDF and the offline zip, which `make book` makes where Chromium is
	@$(BIN)/snakemake --snakefile workflow/Snakefile --profile workflow/profiles/local formats

check-book: $(INSTALLED)  ## open the built book in headless Chromium, network cut off
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m browser --numprocesses 2

notebook: $(INSTALLED)  ## rerun one notebook: make notebook FILE=notebooks/11-train.py ARGS="-p encoding roll"
	@$(BIN)/rollpe notebook $(FILE) $(ARGS)

readme: $(INSTALLED)  ## write the results table of README.md from the committed records
	@$(BIN)/python workflow/readme.py

lock: $(INSTALLED)  ## lock what pyproject.toml adds (requirements.lock, environment.yml); upgrade: UPGRADE=all or UPGRADE=timm
	@$(BIN)/python workflow/lock.py $(UPGRADE)

lint: $(INSTALLED)  ## ruff, mypy, pyright, and the order of imports between rooms
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/basedpyright && $(BIN)/lint-imports --no-logo

clean:  ## remove what the build made; .venv, data and committed records stay
	rm -rf _build book/executed .snakemake
