"""`set_state_dict` with `broadcast_from_rank0` waits forever where the other ranks have no state dict.

That is what `get_state_dict(full_state_dict=True, cpu_offload=True)` gives them. torch takes an empty one for "load the
optimizer alone", so only rank 0 sends the model's. `set_model_state_dict` and `set_optimizer_state_dict` are right.
"""

import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict


def main(rank: int, rendezvous: str) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    weights, state = get_state_dict(
        model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True)
    )
    loaded = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=state, options=loaded)
    print(f"rank {rank} goes on")  # rank 1 alone; rank 0 waits until it has ended


if __name__ == "__main__":
    multiprocessing.spawn(main, (tempfile.mktemp(),), 2)
