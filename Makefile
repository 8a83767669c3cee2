# The few commands. `make` tells what there is.
.PHONY: help run test long lint format bench

help:
	@echo "make run     the main job: hibench run fixed-window"
	@echo "make test    the tests, as CI runs them"
	@echo "make long    the long mode of the property tests"
	@echo "make bench   the table of bars, in pairs against a C program; an hour on an idle machine"
	@echo "make lint    ruff and mypy"
	@echo "make format  ruff format"

run:
	python3 bootstrap.py hibench run fixed-window

test:
	python3 bootstrap.py pytest

long:
	python3 bootstrap.py pytest -m long

bench:
	python3 bootstrap.py python -m benchmarks run

lint:
	python3 bootstrap.py ruff check .
	python3 bootstrap.py mypy

format:
	python3 bootstrap.py ruff format .
