"""What commands do, by subject: requests, clusters, storage, targets, scripts and results.

A command's own file parses its options, calls this, and prints.
"""
