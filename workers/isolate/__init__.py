"""Isolation: every run in processes of its own, with limits on time, memory and output; its death is data."""
