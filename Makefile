# demo: install and run the sample     check: lint and types     bench: benchmarks, as ratios     results: docs/results
# quick: unit tests, about a minute     test: every feature once, 10 minutes on two cores
# verify: kill tests, real-time tests, servers, full fuzzing, 30 minutes   soak: goldens, large counts, 50 minutes
# coverage: lines and branches of test and verify, to tests/golden/coverage.json
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
FILES  := setup.cfg pyproject.toml requirements/lock.txt requirements/torch.txt $(addprefix scripts/,install.py lock_file.py \
          torchvision_shim.py opencv_choice.py)
export HF_HUB_OFFLINE := 1

# decord, which lmms-eval's class of the demo's model imports, has no wheels for ARM; there the demo leaves the model out.
DEMO_EXTRAS := drive$(if $(filter x86_64,$(shell uname -m)),$(strip ,)models)
.PHONY: demo quick test verify soak coverage check check-latest bench results clean
demo: $(VENV)/.installed
	$(VENV)/bin/ad2 demo --out runs/demo

PYTEST := -m pytest -n 2 --dist worksteal --durations=15

quick: $(VENV)/.installed-dev
	AD2_TEST_TIER=quick $(PY) $(PYTEST) tests/unit tests/contracts -m "not integration and not system and not soak"

test: $(VENV)/.installed-dev
	$(PY) $(PYTEST) --reruns 1 -rR -m "not system and not soak"

verify: $(VENV)/.installed-dev
	AD2_TEST_TIER=verify $(PY) $(PYTEST) --reruns 1 -rR -m "system or soak or hypothesis"

soak: $(VENV)/.installed-dev
	$(PY) scripts/golden.py compare --all
	AD2_TEST_TIER=soak $(PY) $(PYTEST) -o timeout=7200 -m "soak or hypothesis"

# Processes that tests start are measured too. Not in the lock: no test needs it. Failing tests do not stop it.
COVERAGE := -m coverage run --rcfile=tests/golden/coveragerc
coverage: $(VENV)/.installed-dev
	$(PY) -m uv pip install --python $(PY) "coverage>=7.10,<8"
	$(PY) -m coverage erase --rcfile=tests/golden/coveragerc
	-$(PY) $(COVERAGE) $(PYTEST) --reruns 1 -m "not system and not soak"
	-AD2_TEST_TIER=verify $(PY) $(COVERAGE) $(PYTEST) --reruns 1 -m "system or soak or hypothesis"
	$(PY) -m coverage combine --rcfile=tests/golden/coveragerc
	$(PY) -m coverage json --rcfile=tests/golden/coveragerc -o .coverage.json
	$(PY) scripts/coverage_by_package.py .coverage.json

check: $(VENV)/.installed-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m mypy benchmarks
	MYPYPATH=scripts $(PY) -m mypy $(addprefix scripts/,install.py lock.py check_latest.py check_macos.py check_spice.py coverage_by_package.py exit_code.py licences.py lmms_eval_api.py process_memory.py stages.py first_hour.py first_hour_checks.py host_tests.py learn.py learn_spread.py marked_blocks.py ship_model.py world_scores.py)

# installs the newest versions into .venv-latest, without the bounds of setup.cfg, and runs `make quick` there
check-latest: $(VENV)/.installed-dev
	$(PY) scripts/check_latest.py

# drives and writes the tables of docs/results and the ceilings, about 20 minutes; ROUTES: Bench2Drive's route file
ROUTES ?= bench2drive220.xml
results: $(VENV)/.installed-dev
	$(PY) benchmarks/results.py $(ROUTES)
	$(PY) benchmarks/performance_page.py

# writes the figures of docs/performance.md, 15 minutes on two idle cores; SCALE=4: four times as long
SCALE ?= 1
BENCHMARKS := open_loop request_rate closed_loop serve robot_link
# One that fails keeps its old figures on the page, and does not stop the others.
bench: $(VENV)/.installed-dev
	@rm -rf runs/bench; failed=; for name in $(BENCHMARKS); do echo "== $$name"; \
	  $(PY) benchmarks/$$name.py --scale $(SCALE) --json runs/bench/$$name.json || failed="$$failed $$name"; done; \
	$(PY) benchmarks/performance_page.py && { test -z "$$failed" || { echo "failed:$$failed"; exit 1; }; }

$(VENV)/.installed: $(FILES)
	@echo "first run: installs into $(VENV), about 3 minutes; afterwards the demo takes about 3 minutes"
	$(PYTHON) scripts/install.py --venv $(VENV) --extras $(DEMO_EXTRAS)
	@touch $@

$(VENV)/.installed-dev: $(FILES)
	@echo "first run: installs the development extras into $(VENV), about 3 minutes"
	$(PYTHON) scripts/install.py --venv $(VENV) --extras dev
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) .venv-latest runs build dist *.egg-info .coverage*
