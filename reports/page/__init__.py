"""Pages: what the report and the self-test look like in a browser."""
