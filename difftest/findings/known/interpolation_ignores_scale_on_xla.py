"""`interpolate` ignores `scale_factor` and uses the ratio of the sizes.

4 pixels times 1.7 are 6, whose ratio is 1.5. torch takes 1.7, as its documentation says, unless
`recompute_scale_factor` is True. torch_xla 2.9.0. Exits 0 while the fault is there.
"""

import os
import sys

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla
from torch.nn.functional import interpolate

row = torch.arange(1.0, 5.0).expand(1, 1, 4, 4)
missing = []
for mode in ("bilinear", "nearest"):
    expected = interpolate(row, scale_factor=1.7, mode=mode)
    actual = interpolate(row.to(torch_xla.device()), scale_factor=1.7, mode=mode).cpu()
    print(f"{mode}: expected {expected[0, 0, 0].tolist()}, actual {actual[0, 0, 0].tolist()}")
    missing += [mode] if torch.allclose(expected, actual) else []
sys.exit(f"not there: {missing}" if missing else 0)
