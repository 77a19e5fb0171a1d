"""A view in inference mode, of a tensor that was made outside of it, fails.

torch_xla 2.9.0.
"""

import os

os.environ.update(PJRT_DEVICE="CPU", CPU_NUM_DEVICES="1")
import torch
import torch_xla

XLA = torch_xla.device()


def view_in_inference_mode(device: object) -> object:
    """A view of a tensor that was made outside of the mode."""
    tensor = torch.ones(2, 2, device=device)
    with torch.inference_mode():
        return tensor.narrow(0, 0, 1).tolist()


actual = view_in_inference_mode(XLA)
print(f"expected {view_in_inference_mode('cpu')}, actual {actual}")
