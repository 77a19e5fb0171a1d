"""Reduction: the simplest case that still shows a finding, and what of it is necessary.

The one idea: a simplification is a plain function from a case to simpler ones, with a few words for what each of them lacks. It knows
nothing of faults; the search (`difftest.reduce.search`) knows nothing of cases. What the search could not take away, those words tell:
they are the conditions under which the fault shows.
"""
