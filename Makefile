# Every target does what it needs first, on a fresh Debian machine too.
SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
CRASHSIM := $(BIN)/crashsim
INSTALLED := $(VENV)/.installed

.PHONY: setup host-packages image demo test lint test-fast test-vm bench clean

setup: host-packages $(INSTALLED) image

host-packages:
	@vm_images/install-host-packages

$(INSTALLED): pyproject.toml constraints.txt | host-packages
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

image: $(INSTALLED)
	$(CRASHSIM) image build

demo: setup
	$(CRASHSIM) matrix --target git --fs ext4 --fs xfs --fs btrfs \
	    --fsync none --fsync default --fsync all \
	    --method fsync --method batch --method writeout-only \
	    --states 40 --out crashsim-out/demo || test $$? -eq 1

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-fast: $(INSTALLED)
	$(BIN)/pytest tests/unit tests/property tests/interop -n 2 --durations=10

test-vm: setup
	$(BIN)/pytest tests/vm -n 2 --dist loadfile --durations=25

test: setup lint
	@vm_images/install-host-packages --tests
	$(MAKE) test-fast
	$(MAKE) test-vm

bench: setup
	$(CRASHSIM) bench machine
	$(CRASHSIM) bench record
	$(CRASHSIM) bench explore
	$(CRASHSIM) bench length
	$(CRASHSIM) bench memory
	$(CRASHSIM) bench finding

clean:
	rm -rf $(VENV) crashsim-out .pytest_cache .mypy_cache .ruff_cache .hypothesis
