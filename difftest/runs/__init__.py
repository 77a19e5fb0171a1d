"""A user's own trainings: what a recorded run is on disk, and where two of them part.

`workers.runs` writes the recordings, in the process of the user's script. Nothing here needs a framework.
"""
