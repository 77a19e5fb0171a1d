"""`torch.linalg.svdvals` and `svd` ignore `set_float32_matmul_precision("highest")`: their products stay at the default.

The default is TF32 on an NVIDIA GPU, and one pass of bfloat16 on a TPU. On an H200 the values of a 32 x 32 matrix are
9.8e-5 off. On XLA:CPU, where the default is float32, the HLO shows it: a matrix product has
`operand_precision={highest,highest}`, those of the decomposition have none.
torch_tpu 0.2.0 with torch 2.15.0, on XLA:CPU, and with torch 2.11.0 on an H200: `TPU_LIBRARY_PATH` names the PJRT
plugin of `difftest environments make torch_tpu`.
Exits 0 while the fault is there.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

dump = tempfile.mkdtemp()
os.environ |= {"TPU_SKIP_MDS_QUERY": "1", "XLA_FLAGS": f"--xla_dump_to={dump} --xla_dump_hlo_as_text"}

import torch
from torch_tpu import _loader

_loader._init_device("tpu")  # torch does this itself where it finds a TPU
torch.set_float32_matmul_precision("highest")

matrix = torch.randn(32, 32, generator=torch.Generator().manual_seed(0))
(matrix.to("tpu") @ matrix.to("tpu")).cpu()
expected, actual = (
    torch.linalg.svdvals(matrix.double()),
    torch.linalg.svdvals(matrix.to("tpu")).cpu().double(),
)
print(f"singular values are {(actual - expected).norm() / expected.norm():.1e} off")

products = {"mm": [], "svd": []}
for file in Path(dump).glob("*.before_optimizations.txt"):
    for line in file.read_text().splitlines():
        if " dot(" in line:
            precision = re.search(r"operand_precision=\{[^}]*\}", line)
            products["svd" if "svd" in file.name else "mm"].append(
                precision.group() if precision else "default"
            )
print(f"precision of a matrix product: {products['mm']}")
print(f"precision of the products of a decomposition: {products['svd']}")
sys.exit("default" in products["mm"] or "default" not in products["svd"])
