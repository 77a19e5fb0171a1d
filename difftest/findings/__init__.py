"""The life of a finding: rerun, matched with the ledger, ablated, located in the model, bisected over versions."""
