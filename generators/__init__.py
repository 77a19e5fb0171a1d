"""What difftest runs: Hypothesis strategies for cases, valid by construction, and the order of the cases.

`cases` assembles a case and addresses it by (seed, index): `case_at`. `sequence` says which indices a
campaign has, in which order, and `ahead` draws a long campaign's cases in other processes. Mesh and layout
come from a plug-in in `paths`, one file per parallelism path. The layers come from `models`, the optimizer
and the batch from `training`, and the options from `options`. `layouts` makes meshes and places parameters
for the paths, `chances` has the probabilities, and `explore` picks the candidate that covers most new pairs
of features. Nothing here knows a backend.
"""
