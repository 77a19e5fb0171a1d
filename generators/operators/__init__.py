"""Every operator of torch as data, and the programs that are made of them.

`table` reads what `tools/operators/write.py` wrote once from torch's OpInfo database, so that generating
cases needs no torch. `singles` enumerates programs of one operator, `chains` draws programs of several, and
`undefined` lists what torch's documentation leaves open.
"""
