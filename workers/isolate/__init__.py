"""Isolation: every run in a process of its own, limited in time, memory and output; its death is data."""
