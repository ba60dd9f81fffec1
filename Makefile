# SPDX-License-Identifier: Apache-2.0
# make demo    the whole way once, on real parts: pods, kernel, containerd, Collector, Prometheus
# make test    every test; make check: linters and types
# make vm      a VM to try things in; JOB='...' gives the running one a job
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LAB := PYTHONPATH=tests $(BIN)/python -m lab
LAYERS := layout,collector,vm
export PYTHONUNBUFFERED := 1

.PHONY: help demo test check vm job host venv lab lock docs format clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# \(make .*\)/\1/p' $(MAKEFILE_LIST)

# What the host must have; installs it where it may (root), else prints the one line that does.
host:
	@PYTHONPATH=tests $(PYTHON) -m lab check

venv: host $(VENV)/stamp
$(VENV)/stamp: requirements.lock pyproject.toml hatch_build.py receiver/xpumeter/source/cri.proto
	@echo "venv: installing what requirements.lock names (a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: venv
	@$(LAB) demo

vm: venv
	@$(LAB) vm

job: venv
	@$(LAB) run -- '$(JOB)'

# What the tests need beside the venv: kernels, a guest, a Collector; once.
lab: venv
	@$(LAB) prepare

test: lab
	XPUMETER_REQUIRE=$(LAYERS) $(BIN)/python -m pytest $(TESTS)

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=receiver $(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror bpf/*.c bpf/*.h $(wildcard tests/lab/image/*.c)
	$(BIN)/shellcheck .ci/run $(wildcard tests/lab/guest/*.sh)

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i bpf/*.c bpf/*.h $(wildcard tests/lab/image/*.c)

# Documents that are made from the code; the unit tests fail when they are not current.
docs: venv
	$(BIN)/python -m xpumeter.reference schema > config/xpumeter.schema.json
	$(BIN)/python -m xpumeter.reference configuration > docs/configuration.md
	$(BIN)/python -m xpumeter.reference drivers > docs/drivers.md
	$(BIN)/python -m xpumeter.export.reference > docs/metrics.md

# Needs uv: resolves for every Python and platform at once.
lock:
	uv pip compile -q --universal --generate-hashes --python-version 3.11 --extra dev \
		--no-header pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) bpf/build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
