"""Pipelining: inputs that are cut along another dim than the first are refused for their strides.

torch 2.9.0. Sequences come first here, as in `nn.Transformer`; a cut along dim 1 is a view with the strides of the whole.
"""

import tempfile

import torch
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.pipelining.microbatch import TensorChunkSpec

distributed.init_process_group("gloo", init_method=f"file://{tempfile.mktemp()}", rank=0, world_size=1)
stage = PipelineStage(nn.Linear(2, 2), 0, 1, torch.device("cpu"))
second = TensorChunkSpec(1)
schedule = ScheduleGPipe(stage, n_microbatches=2, args_chunk_spec=(second,), output_merge_spec=second)
schedule.step(torch.ones(3, 4, 2))
