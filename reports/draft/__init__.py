"""A draft: a finding in the form of the tracker that it belongs to, without what is private."""
