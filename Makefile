# The few commands. `make` tells what there is.
.PHONY: help run test long lint format

help:
	@echo "make run     the main job: hibench run fixed-window"
	@echo "make test    the tests, as CI runs them"
	@echo "make long    the long mode of the property tests"
	@echo "make lint    ruff and mypy"
	@echo "make format  ruff format"

run:
	python3 bootstrap.py hibench run fixed-window

test:
	python3 bootstrap.py pytest

long:
	python3 bootstrap.py pytest -m long

lint:
	python3 bootstrap.py ruff check .
	python3 bootstrap.py mypy

format:
	python3 bootstrap.py ruff format .
