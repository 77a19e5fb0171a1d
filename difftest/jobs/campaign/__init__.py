"""A campaign from the request to the exit status: workers, cases, progress, counts, reports."""
