# SPDX-License-Identifier: Apache-2.0
# make demo                    the whole way once, on real parts: pods, kernel, Collector, Prometheus
# make test [TESTS=...]        every test; fails where a layer cannot run
# make unit                    the tests that need no VM and no Collector
# make test-long               5,000 examples for each property and history, and more churn in the
#                              VMs; docs/evidence.md
# make bench                   what reading, naming and exporting take, as ratios in one run
# make check                   linters and types; make format mends what can be mended
# make venv                    xpumeter in .venv, with everything for development
# make vm                      a VM to try things in, until Ctrl-C or make stop
# make job JOB='...'           a command for it, with the code as it is now ($ is written $$)
# make docs                    write the documents that follow from the code
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LAB := PYTHONPATH=tests $(BIN)/python -m lab
LAYERS := layout,collector,vm
export JOB
export PYTHONUNBUFFERED := 1

.PHONY: help demo test unit test-long bench check format venv host lab vm job stop docs lock clean
.DEFAULT_GOAL := help

help:
	@sed -n 's/^# \(make .*\)/\1/p' $(MAKEFILE_LIST)

# What the lab needs of this host: looked at first, installed where that is allowed (root), else
# the one line is printed that does.
host:
	@$(PYTHON) tests/lab/first.py
	@PYTHONPATH=tests $(PYTHON) -m lab check

venv: $(VENV)/stamp
$(VENV)/stamp: requirements.lock pyproject.toml hatch_build.py receiver/xpumeter/source/cri.proto
	@echo "venv: what requirements.lock names (half a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The BPF object of the checkout; make knows what it is made of.
bpf: venv
	@$(MAKE) --no-print-directory -s -C bpf
.PHONY: bpf

demo: host bpf
	@$(LAB) demo

vm: host bpf
	@$(LAB) vm

job:
	@$(LAB) run -- "$$JOB"

stop:
	@$(LAB) stop

# What the tests need beside the venv: kernels, a guest, a Collector; once.
lab: host bpf
	@$(LAB) prepare

test: lab
	XPUMETER_REQUIRE=$(LAYERS) $(BIN)/python -m pytest $(TESTS)

unit: bpf
	$(BIN)/python -m pytest tests/unit

test-long: lab
	HYPOTHESIS_PROFILE=search $(BIN)/python -m pytest -q -k "not nothing" \
		$$(grep -l hypothesis tests/unit/*.py)
	XPUMETER_LONG=1 XPUMETER_REQUIRE=$(LAYERS) $(BIN)/python -m pytest -q -s tests/vm/test_churn.py

bench: host bpf
	XPUMETER_REQUIRE=collector $(BIN)/python -m pytest -q -s tests/bench

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=receiver $(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror bpf/*.c bpf/*.h $(wildcard tests/lab/image/*.[ch])
	$(BIN)/shellcheck .ci/run $(wildcard tests/lab/guest/*.sh)

format: venv
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i bpf/*.c bpf/*.h $(wildcard tests/lab/image/*.[ch])

# The unit tests fail when these are not current.
docs: venv
	$(BIN)/python -m xpumeter.reference schema > config/xpumeter.schema.json
	$(BIN)/python -m xpumeter.reference configuration > docs/configuration.md
	$(BIN)/python -m xpumeter.reference support > docs/support.md
	$(BIN)/python -m xpumeter.reference drivers > docs/drivers.md
	$(BIN)/python -m xpumeter.export.reference > docs/metrics.md

# Needs uv: resolves for every Python and platform at once.
lock:
	uv pip compile -q --universal --generate-hashes --python-version 3.11 --extra dev \
		--no-header pyproject.toml -o requirements.lock

clean:
	rm -rf $(VENV) bpf/build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
