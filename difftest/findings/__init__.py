"""The life of a finding: run again, held against the ledger, ablated, located in the model, and bisected over versions."""
