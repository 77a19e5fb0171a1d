"""Imported before a user's packages in the oracle: its loops are in place by then too."""

from workers.own import before_imports, loops

__all__ = ["before_imports"]

loops.replaced()
