"""The life of a finding: triaged, matched with the ledger, ablated, located in the model, bisected."""
