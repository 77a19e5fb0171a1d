"""Benchmarks: programs that measure, each with one command in its docstring."""
