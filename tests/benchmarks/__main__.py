"""Runs all benchmarks one after another: `python -m tests.benchmarks`. It takes about half an hour.

Nothing passes or fails: figures depend on the machine, and on what else it does.
"""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent

if __name__ == "__main__":
    for file in sorted(FOLDER.glob("[a-z]*.py")):
        subprocess.run([sys.executable, str(file)], check=True)
