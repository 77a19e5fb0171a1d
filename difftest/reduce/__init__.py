"""Reduction: the simplest case that still shows a finding, and which of its properties are necessary.

A simplification is a plain function from a case to simpler cases, with a few words for what each of them
lacks. It knows nothing of faults; the search (`difftest.reduce.search`) knows nothing of the contents of
cases. The words of what the search could not remove are the conditions under which the fault shows.
"""
