"""From a finding to a draft: reduction, ablations, scripts and their runs, and the draft itself."""
