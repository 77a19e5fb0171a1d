"""The recorder in a user's own script. It imports torch, numpy, msgspec, and nothing heavier."""
