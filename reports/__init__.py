"""Reports: from a corpus to one long table, from that to small ones, from those to files."""
