"""A reproducer: a script of a few lines that shows a finding without this project."""
