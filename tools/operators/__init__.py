"""What writes the operator table of `generators.operators` from torch's OpInfo database."""
