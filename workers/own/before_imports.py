"""Imported before a user's packages: dropout that takes its masks from the host is in place by then."""

from workers.own import masks

masks.install()
