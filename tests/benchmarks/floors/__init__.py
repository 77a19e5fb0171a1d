"""The parts of `tests/benchmarks/calibration.py`: what a child process measures, and the plot."""
