# `make demo` and `make test` set up what they need in .venv; a second run reuses it.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin

# What `make bench-decode` times: a trained run, and the text to translate.
RUN ?= runs/multi30k_en_de
SOURCE ?= data/multi30k/test_2016_flickr.en
REFERENCE ?=
# What `make bench-train` trains on: the built-in demo corpus, or the corpus of a recipe.
RECIPE ?= train/recipes/demo.yaml
BENCH ?=

NOTEBOOK := docs/tutorials/transformer

.PHONY: help demo docs notebook pictures release test test-argos test-beam test-marian test-slow test-thorough bench-decode bench-layers bench-serve bench-train lint format clean

help:
	@echo "make demo       train, score and export a small model in minutes"
	@echo "make test       lint, and run the tests of every part"
	@echo "make test-thorough  run slower tests of rarer cases"
	@echo "make test-slow  run the slow tests: real corpora, long training runs"
	@echo "make test-beam  run the tests that need Apache Beam, in an environment of their own"
	@echo "make test-marian  compare OPUS-MT models with the transformers library, in an environment of its own"
	@echo "make test-argos   have Argos Translate install and use packages, in an environment of its own"
	@echo "make bench-decode RUN=... SOURCE=...  time decoding beside its peers (benchmarks/README.md)"
	@echo "make bench-train RECIPE=...           time training beside its peers (benchmarks/README.md)"
	@echo "make bench-serve MODEL=... SOURCE=... PACKAGE=...  put the server under load (benchmarks/README.md)"
	@echo "make bench-layers                     time the layers of the paper's Table 1 (docs/layers.md)"
	@echo "make docs       build the documentation as a site, in build/docs"
	@echo "make notebook   make $(NOTEBOOK).ipynb of the .md beside it"
	@echo "make pictures   draw the documents' pictures again; one is of the demo's model, runs/demo"
	@echo "make release    build the source distribution and the wheel, in dist, and check them"
	@echo "make lint       check style;  make format  fix it"

# The stamp is renewed when what is to be installed changes.
$(VENV)/.installed: setup.cfg pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

$(VENV)/.docs-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/tf-transformer demo

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# With fewer of glibc's arenas less freed memory stays with the processes.
test: lint
	MALLOC_ARENA_MAX=2 $(BIN)/python -m pytest -m "not slow and not thorough"

test-thorough: $(VENV)/.installed
	MALLOC_ARENA_MAX=2 $(BIN)/python -m pytest -m thorough

# Built again each time, since its pages come out of the code too. The files need no server and no network to be read.
# The notebook runs where its code has changed since it last ran; `rm -r build/notebooks` has it run again.
docs: $(VENV)/.docs-installed
	rm -rf build/docs
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs
	@echo "build/docs/index.html"

pictures: $(VENV)/.installed
	$(BIN)/python docs/pictures/draw.py

# The text is what is edited; a test holds the two equal. Cells that stay keep their ids.
notebook: $(VENV)/.docs-installed
	$(BIN)/jupytext --quiet --update --to ipynb $(NOTEBOOK).md

$(VENV)/.release-installed: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[release]'
	touch $@

# Each in an environment of its own, as whoever installs them does. Uploading is a person's work.
release: $(VENV)/.release-installed
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

test-slow: $(VENV)/.docs-installed
	$(BIN)/python -m pytest -m slow -o faulthandler_timeout=7200

# What the other tests do without, each in an environment of its own.
.venv-beam/.installed .venv-marian/.installed .venv-argos/.installed: .venv-%/.installed: setup.cfg pyproject.toml
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,$*]'
	touch $@

test-beam: .venv-beam/.installed
	.venv-beam/bin/python -m pytest tests/apache_beam

test-marian: .venv-marian/.installed
	.venv-marian/bin/python -m pytest tests/marian

test-argos: .venv-argos/.installed
	.venv-argos/bin/python -m pytest tests/export/argos

# The peers need other versions of TensorFlow, and PyTorch.
.venv-%/.installed: benchmarks/requirements-%.txt
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

bench-decode: $(VENV)/.installed .venv-opennmt/.installed .venv-peers/.installed
	$(BIN)/python benchmarks/decode.py $(RUN) --source $(SOURCE) $(if $(REFERENCE),--reference $(REFERENCE)) $(BENCH)

bench-train: $(VENV)/.installed .venv-opennmt/.installed .venv-peers/.installed .venv-joeynmt/.installed
	$(BIN)/python benchmarks/train.py $(RECIPE) $(BENCH)

# PACKAGE is the same model as a package for LibreTranslate.
bench-serve: $(VENV)/.installed .venv-libretranslate/.installed
	$(BIN)/python benchmarks/serve.py $(MODEL) --source $(SOURCE) --libretranslate $(PACKAGE) $(BENCH)

bench-layers: $(VENV)/.installed
	$(BIN)/python benchmarks/layers.py $(BENCH)

clean:
	rm -rf $(VENV) .venv-argos .venv-beam .venv-marian .venv-opennmt .venv-peers .venv-joeynmt .venv-libretranslate
