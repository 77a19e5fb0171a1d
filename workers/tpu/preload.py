"""Imported before torch: has torch_tpu load our PJRT plugin.

torch loads torch_tpu as it is imported, and that loads the plugin that `TPU_LIBRARY_PATH` names, libtpu by
default. The plugin starts no thread and touches no device until a rank makes a client.

What `workers.torch.preload` sets, that nothing compiled is kept, matters here too: the ranks would load what
another rank or an earlier run has compiled for another device, which the CPU plugin refuses.
"""

import os

from workers.tpu import build

LIBRARY = build.library()
os.environ |= {"TPU_LIBRARY_PATH": str(LIBRARY)}
