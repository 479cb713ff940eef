# Four words to learn first: up, test, check, fmt.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
WHEELS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/umbel/torch-wheels
WORKERS := 2
CLUSTERS := tests/clusters
TORCH  := $(WHEELS)/torch-1.13.1-cp311-cp311-linux_x86_64.whl

.PHONY: up test test-long test-clusters check fmt docs bench clean

up: $(READY)  ## a secured federation on this machine that trains the quickstart app
	@$(BIN)/umbel up
	@$(BIN)/umbel run
	@echo 'The command is in $(BIN): export PATH="$$PWD/$(BIN):$$PATH"'

test: $(READY) check  ## every test that needs no cluster
	$(BIN)/pytest -q -n $(WORKERS) tests/unit tests/contract
	$(BIN)/pytest -q -n $(WORKERS) -m 'not long' tests/integration

test-long: $(READY) $(TORCH)  ## what takes minutes: beside stock Flower, with other Flowers, with PyTorch
	$(BIN)/pytest -q -n $(WORKERS) --dist loadfile --timeout 300 -m long tests/integration
	UMBEL_WHEELS=$(WHEELS) $(BIN)/pytest -q tests/frameworks

$(TORCH): | $(READY)  # Debian's PyTorch as a wheel, with what else its app needs: tests/frameworks/README.md
	apt-get update -q
	$(BIN)/python tests/frameworks/torch_wheel.py $(WHEELS)
	$(BIN)/python -m pip download -q -d $(WHEELS) "flwr==$$($(BIN)/python -c 'import flwr; print(flwr.__version__)')" 'numpy<2' typing-extensions

test-clusters: $(READY)  ## on real Kubernetes and Open Cluster Management; the first time builds them, 20 minutes
	$(BIN)/python -m testbed build
	$(BIN)/pytest -q -m "not long" --durations=12 $(CLUSTERS)

check: $(READY)  ## format, lint, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)  ## the reference and the manifests in deploy/, from the code
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/manifests.py

bench: $(READY)  ## side by side with stock Flower; JSON on stdout
	$(BIN)/python bench/local.py
	$(BIN)/python bench/rounds.py --large
	$(BIN)/python bench/idle.py
	$(BIN)/python bench/gate.py
	$(BIN)/python bench/placement.py
	$(BIN)/python bench/identities.py
	PYTHONPATH=. $(BIN)/python bench/operator_cost.py --sizes 100 1000 --rest 60

clean:
	rm -rf $(VENV)

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else f"Umbel needs Python 3.11 or newer; this is {v[0]}.{v[1]}. Try: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check 'uv>=0.12.20,<0.13'
	$(BIN)/uv pip install -q --compile-bytecode --python $(BIN)/python --require-hashes -r requirements.lock
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps -e .
	$(BIN)/python -m compileall -q src/umbel
	@touch $@
