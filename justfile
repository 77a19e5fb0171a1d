# What a developer types; `just` alone lists it. CI runs .ci/run, which does the same from nothing.

fast := "not slow and not long and not browser"
export PATH := justfile_directory() / ".venv/bin" + ":" + env_var("PATH")

# List the recipes.
_default:
    @just --list --unsorted

# Make .venv with everything that the tests need.
setup:
    python3 -m venv .venv
    .venv/bin/pip install --quiet --require-hashes -r tools.txt
    .venv/bin/uv pip install --python .venv/bin/python -c constraints.txt -e ".[xla,cluster,test]"

# Let git run the hooks of .pre-commit-config.yaml; needs pre-commit.
hooks:
    pre-commit install

# Check style, without changing anything.
lint:
    ruff check .
    ruff format --check .

# Format the code, and mend what ruff can mend by itself.
format:
    ruff check --fix .
    ruff format .

# Check the types of packages and tests.
types:
    mypy

# Run the fast tier: no torch, less than two minutes on 2 cores.
fast *arguments:
    pytest -n auto -m "{{fast}}" {{arguments}}

# Run what takes seconds, or starts workers or a browser: many minutes.
slow *arguments:
    pytest -n 2 -m "(slow or long or browser) and not nightly" {{arguments}}

# Run every test but the nightly ones, as CI does.
test *arguments:
    pytest {{arguments}}

# Run the tests that are too long for every change.
nightly-tests *arguments:
    pytest -m nightly {{arguments}}

# Measure what the tests without workers and browser cover, and write htmlcov/.
coverage:
    pytest -n auto -m "not slow and not browser" --cov --cov-report=term --cov-report=html

# Write the generated sections of the documents anew.
docs:
    python docs/generate.py

# Compute the figures of docs/figures.toml again; says which were out of date, and writes them.
figures:
    python tools/figures.py

# Build the documentation's site in site/; needs the extra `docs`.
site:
    mkdocs build --strict

# Everything that a change must pass before it is pushed, but for the slow tests.
check: lint types fast
