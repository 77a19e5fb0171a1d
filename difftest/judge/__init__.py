"""From two runs of a case to a verdict: what a run leaves, how far rounding may lead, what differs, and who is at fault."""
