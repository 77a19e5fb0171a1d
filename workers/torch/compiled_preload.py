"""Imported before torch: what `torch.compile` keeps on disk, and what it must find out once.

No compiled graph is kept on disk: a rank would load what another rank, or an earlier run with other options,
has compiled. Objects of the C++ compiler are kept in the user's state, by a hash of their source. Nothing is
compiled in processes beside the rank's own, which would outlive it.

Inductor tries, in a process of its own, which vector instructions the machine has. That takes seconds, and
the ranks inherit the answer.
"""

import os

from difftest.state_folder import state_folder

os.environ |= {
    "TORCHINDUCTOR_CACHE_DIR": str(state_folder("inductor")),
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
}

from torch._inductor import compile_fx, cpu_vec_isa

cpu_vec_isa.valid_vec_isa_list()
compile_fx.compile_fx  # noqa: B018  imported for the ranks
