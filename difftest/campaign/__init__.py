"""The loop over cases: run each on every side, compare, and turn what diverges into findings."""
