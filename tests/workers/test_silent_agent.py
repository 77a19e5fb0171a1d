"""What stands for the dashboard agent of Ray: it says that it serves nothing, and ends with its raylet."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil

AGENT = Path(__file__).parents[2] / "workers" / "cluster" / "silent_agent.py"
RAYLET = """
import subprocess, sys, time
from pathlib import Path
agent = subprocess.Popen([sys.executable, "-I", "-S", *sys.argv[1:]])
while len([*Path(sys.argv[2].partition("=")[2]).glob("*_port_n")]) < 3:
    time.sleep(0.02)
print(agent.pid)
"""
"""A raylet that ends as soon as its agent has said its ports."""


def test_it_says_three_ports_that_are_not_served_and_ends_with_the_process_that_started_it(
    tmp_path: Path,
) -> None:
    words = (str(AGENT), f"--session-dir={tmp_path}", "--node-id=n", "--minimal", "--logging-filename=")
    done = subprocess.run(
        [sys.executable, "-c", RAYLET, *words], capture_output=True, text=True, check=True, timeout=60
    )
    ports = {file.name: file.read_text() for file in tmp_path.iterdir()}
    names = ("dashboard_agent_listen", "metrics_agent", "metrics_export")
    assert ports == {f"{name}_port_n": "-1" for name in names}
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(10)
