"""What a recorded step costs: a GPT trains, every second step is recorded, and both kinds are timed.

    python tests/benchmarks/recording_cost.py
    python tests/benchmarks/recording_cost.py --device cuda --batch 8 --length 1024 --autocast

On a CPU the processor time of one thread counts, which other programs on the machine change little. On a GPU
the time counts until the GPU has done a step.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ.setdefault("OUT", "")

import torch  # noqa: E402

nano: Any = import_module("training_scripts.nano")
import difftest  # noqa: E402  found on the path above

AIM = 0.05
"""The share of a training's time that recording may take."""


@click.command()
@click.option("--device", default="cpu", show_default=True)
@click.option("--layers", default=12, show_default=True)
@click.option("--width", default=768, show_default=True)
@click.option("--vocabulary", default=50257, show_default=True)
@click.option("--batch", default=1, show_default=True)
@click.option("--length", default=256, show_default=True)
@click.option("--steps", default=8, show_default=True, help="Half are recorded; the first two do not count.")
@click.option("--modules", default="*", show_default=True, help="The modules whose outputs are recorded.")
@click.option("--autocast", is_flag=True, help="Compute in bfloat16.")
def main(**options: object) -> None:
    """Trains, and prints the times of both kinds of steps."""
    size, batch, length = (int(str(options[name])) for name in ("vocabulary", "batch", "length"))
    nano.n_layer, nano.n_embd, nano.n_head = int(str(options["layers"])), int(str(options["width"])), 12
    nano.block_size, nano.vocab_size = length, size
    device = torch.device(str(options["device"]))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nano.GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(size, (batch, length + 1), generator=torch.Generator().manual_seed(1)).to(device)
    tokens = tokens.contiguous()
    with tempfile.TemporaryDirectory() as folder:
        recorder = difftest.record(model, optimizer, out=folder, every=2, modules=str(options["modules"]))

        def step() -> None:
            with torch.autocast(device.type, torch.bfloat16, enabled=bool(options["autocast"])):
                _, loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            recorder.step()

        times = [seconds(step, device) for _ in range(int(str(options["steps"])))]
        written = (Path(folder) / "rank-00000.f64").stat().st_size
        recorder.close()
    count = sum(parameter.numel() for parameter in model.parameters())
    report(times[2:], count, batch * length, written / ((len(times) + 1) // 2))


def seconds(step: Callable[[], None], device: torch.device) -> float:
    """What a step takes: of the processor, or of the GPU until it is done."""
    if device.type != "cuda":
        began = time.process_time()
        step()
        return time.process_time() - began
    torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def report(times: list[float], parameters: int, tokens: int, size: float) -> None:
    """Prints the figures."""
    recorded, plain = statistics.median(times[::2]), statistics.median(times[1::2])
    more = recorded / plain - 1
    click.echo(
        f"{parameters / 1e6:.0f}M parameters, {tokens} tokens a step, {size / 1e3:.0f} kB a recorded step"
    )
    click.echo(f"a step takes {plain:.3f} s, a recorded one {recorded:.3f} s: {more:+.0%}")
    click.echo(f"with every={max(1, round(more / AIM + 0.5))} at most {AIM:.0%}")


if __name__ == "__main__":
    main()
