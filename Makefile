# Every command of the project. Needs GNU make, a shell, and Python 3.11 or newer with its venv module.
#
#     make PYTHON=python3.12 test         another interpreter (after `make clean`)
#     make test PYTEST_ARGS="-k cbor"     arguments for pytest
#     make lock UPGRADE=--upgrade         newer versions in requirements/*.lock

export PYTHON

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test check unit fresh corpus generate without cover bench lock clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /make \1\t/p' Makefile

demo: .venv-demo/.ready ## convert a real model to .zt and back, and prove that nothing changed
	.venv-demo/bin/python tools/demo.py

test: check ## everything a change must pass: check, then the whole test suite
	.venv/bin/python -m pytest $(PYTEST_ARGS)

check: .venv/.ready ## format, lint, types, layers
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports --no-logo

unit: .venv/.ready ## the unit tests alone, stopping at the first failure
	.venv/bin/python -m pytest -x tests/unit $(PYTEST_ARGS)

fresh: .venv/.ready ## the property tests with fresh examples, many more of them; prints its seed
	HYPOTHESIS_PROFILE=fresh .venv/bin/python -m pytest tests/property $(PYTEST_ARGS)

corpus: .venv/.ready ## the committed conformance files are exactly what their builders make
	.venv/bin/python -m conformance.build --check

generate: .venv/.ready ## write what is made from the source: corpora, their indexes, the pages of the reference
	.venv/bin/python -m conformance.build
	.venv/bin/python tools/api_reference.py
	.venv/bin/python tools/cli_reference.py

without: .venv/.ready ## the test suite without optional packages, then without what only some systems have
	PYTHONPATH=tests/without TENSORARK_WITHOUT="torch cryptography model_signing scipy _ctypes" \
		.venv/bin/python -m pytest -p lacking $(PYTEST_ARGS)
	PYTHONPATH=tests/without TENSORARK_WITHOUT="fcntl resource os.O_TMPFILE os.posix_fadvise os.sched_getaffinity os.preadv" \
		.venv/bin/python -m pytest -p lacking $(PYTEST_ARGS)

cover: .venv/.ready ## the test suite with branch coverage
	.venv/bin/python -m pytest --cov --cov-report=term-missing $(PYTEST_ARGS)

bench: .venv/.ready ## measure on this machine, against the packages that are test oracles too
	.venv/bin/python -m bench $(BENCH_ARGS)
	.venv/bin/python -m bench.codecs $(BENCH_ARGS)

# ------------------------------------------------------------------------------------- environments
# Two, so that the demonstration proves that the run-time dependencies suffice. Each is made anew when its
# lock files change; the package itself is installed in place, again whenever pyproject.toml changes.

.venv/.packages: requirements/test.lock requirements/torch.txt
	tools/environment.sh .venv $^
	@touch $@

.venv-demo/.packages: requirements/run.lock requirements/build.lock
	tools/environment.sh .venv-demo $^
	@touch $@

%/.ready: %/.packages pyproject.toml
	$*/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	$*/bin/python -m pip check
	@touch $@

# ------------------------------------------------------------------------------------------- locks
# One set of versions for every platform, with hashes and without the address of any index.

COMPILE = .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-emit-index-url --custom-compile-command "make lock" $(UPGRADE)

lock: ## write requirements/*.lock from pyproject.toml, keeping what is pinned already
	tools/environment.sh .venv-lock requirements/lock.txt
	$(COMPILE) pyproject.toml -o requirements/run.lock
	$(COMPILE) requirements/build.in -c requirements/run.lock -o requirements/build.lock
	$(COMPILE) pyproject.toml --extra test requirements/build.in \
		-c requirements/run.lock -c requirements/build.lock -o requirements/test.lock

clean: ## remove whatever the other commands made
	rm -rf .venv .venv-demo .venv-lock demo build dist .coverage htmlcov
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests conformance bench fuzz tools -name __pycache__ -exec rm -rf {} + 2>/dev/null || true
