"""Imported before torch: what `torch.compile` keeps on disk.

torch reads it as it is imported, and every zygote of this Python is forked from one that has imported torch.

No compiled graph is kept: a rank would load what another rank, or an earlier run with other options, has
compiled. Objects of the C++ compiler are kept in the user's state, by a hash of their source. Nothing is
compiled in processes beside the rank's own, which would outlive it.
"""

import os

from difftest.ground.state_folder import state_folder

os.environ |= {
    "TORCHINDUCTOR_CACHE_DIR": str(state_folder("inductor")),
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
}
