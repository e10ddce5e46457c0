# demo: install and run the sample.  test: the tests.  check: lint and types.  bench: what is measured.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
FILES  := setup.cfg pyproject.toml constraints.txt scripts/install.py scripts/torchvision_shim.py scripts/opencv_choice.py
export HF_HUB_OFFLINE := 1

.PHONY: demo test check bench clean
demo: $(VENV)/.installed
	$(VENV)/bin/ad2 demo --out runs/demo

test: $(VENV)/.installed-dev
	@echo "the tests take 30 to 50 minutes on two cores"
	$(PY) -m pytest -n 2 --dist worksteal --durations=10

check: $(VENV)/.installed-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(VENV)/.installed-dev
	$(PY) benchmarks/open_loop.py
	$(PY) benchmarks/mcq.py
	$(PY) benchmarks/closed_loop.py
	$(PY) benchmarks/serve.py
	$(PY) benchmarks/robot_link.py

$(VENV)/.installed: $(FILES)
	@echo "first run: installs into $(VENV), about 3 minutes; afterwards the demo takes about 2 minutes"
	$(PYTHON) scripts/install.py --venv $(VENV) --extras drive
	@touch $@

$(VENV)/.installed-dev: $(FILES)
	@echo "first run: installs the development extras into $(VENV), about 3 minutes"
	$(PYTHON) scripts/install.py --venv $(VENV) --extras dev
	@touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) runs build dist *.egg-info
