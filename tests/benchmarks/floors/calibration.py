"""How well the simulated rounding noise predicts real errors, by operator: torch's on the CPU, and XLA's.

    python tests/benchmarks/floors/calibration.py --out runs/calibration --plot docs/calibration.svg

It goes through torch's OpInfo database by name, in a process that it starts again where an operator kills it
or takes too long. It appends to a file as it goes, and continues there when it is called again.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import msgspec

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support")]

DTYPES = ("float32", "bfloat16", "float16", "float64")
MOST_SECONDS = 120
"""The longest that one operator may take in one dtype."""


def main() -> None:
    """Measures what is missing, prints the figures, and draws the plot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the records")
    parser.add_argument(
        "--operators", default="", help="only those whose names contain one of these, with commas"
    )
    parser.add_argument("--every", type=int, default=1, help="one operator in so many")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--samples", type=int, default=3, help="the most of one operator in one dtype")
    parser.add_argument("--no-xla", action="store_true", help="torch's kernels alone")
    parser.add_argument("--plot", type=Path, help="an SVG to write")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.child:
        child(arguments)
        return
    while subprocess.run([sys.executable, __file__, "--child", *sys.argv[1:]], check=False).returncode:
        click.echo(f"{(arguments.out / 'begun').read_text()} ended its process", err=True)
    from benchmarks.floors.summary import summary  # noqa: PLC0415  found on the path above

    caption = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}"
    click.echo(caption)
    click.echo(summary(arguments.out / "records.jsonl", arguments.plot, caption))


def child(arguments: argparse.Namespace) -> None:
    """Measures until all is there; dies where an operator kills it, and then goes on after that one."""
    import signal  # noqa: PLC0415  the parent needs none of this

    import torch  # noqa: PLC0415
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415

    from benchmarks.floors.measure import measured, name_of  # noqa: PLC0415

    if not arguments.no_xla:
        import torch_xla  # noqa: PLC0415

        torch_xla.device()  # before the first backward pass on the CPU
    torch.set_num_threads(1)
    begun, wanted = arguments.out / "begun", arguments.operators.split(",")
    done = (
        set((arguments.out / "done").read_text().splitlines()) if (arguments.out / "done").exists() else set()
    )
    done |= {begun.read_text()} if begun.exists() else set()
    with (arguments.out / "records.jsonl").open("ab") as records, (arguments.out / "done").open("a") as ended:
        if begun.exists():
            print(begun.read_text(), file=ended)
        for info in sorted(op_db, key=name_of)[:: arguments.every]:
            for dtype in arguments.dtypes.split(","):
                key = f"{name_of(info)} {dtype}"
                if key in done or not any(part in name_of(info) for part in wanted):
                    continue
                begun.write_text(key)
                signal.alarm(MOST_SECONDS)
                for record in measured(info, dtype, arguments.samples, xla=not arguments.no_xla):
                    records.write(msgspec.json.encode(record) + b"\n")
                records.flush()
                print(key, file=ended, flush=True)
    begun.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
