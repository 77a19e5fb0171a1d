"""The parts of `tests/benchmarks/floors/calibration.py`: what a child process measures, and the plot."""
