"""What is tried: Hypothesis strategies for cases, valid by construction, and the order in which they are visited.

`cases` puts a case together and addresses it by (seed, index): `case_at`. It takes the mesh and the layout from a plug-in in
`paths` (one file a parallelism path), the layers from `models`, the optimizer and the batch from `training`; `layouts` cuts
meshes and places parameters for the paths, `chances` says how often, and `explore` picks, of a few candidates, the one that covers most
that is new. Nothing here knows a backend.
"""
