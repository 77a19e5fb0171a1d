"""Imported before ranks are forked: what `torch.compile` must find out once.

Inductor tries, in a process of its own, which vector instructions the machine has. That takes seconds, and
the ranks inherit the answer.
"""

from torch._inductor import compile_fx, cpu_vec_isa

cpu_vec_isa.valid_vec_isa_list()
compile_fx.compile_fx  # noqa: B018  imported for the ranks
