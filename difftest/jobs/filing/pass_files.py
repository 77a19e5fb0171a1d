"""The files with the module before and after the guilty pass, among a finding's artifacts."""

BEFORE, AFTER = "before_pass.hlo.txt", "after_pass.hlo.txt"
