"""The cluster: joining Ray, its actors, which actor runs what, and where each backend runs."""
