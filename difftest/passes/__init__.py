"""Which pass of XLA makes a program's numbers wrong: the module after every pass is evaluated, without XLA.

`hlo` reads the text that XLA dumps, `evaluate` gives its numbers, and `guilty` compares them.
"""
