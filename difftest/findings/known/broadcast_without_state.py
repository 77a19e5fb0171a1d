"""`set_optimizer_state_dict` with `full_state_dict` fails for an optimizer that keeps no state: AssertionError."""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.125)
    whole = StateDictOptions(full_state_dict=True)
    state = get_optimizer_state_dict(model, optimizer, options=whole)
    set_optimizer_state_dict(model, optimizer, state, options=whole)


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
