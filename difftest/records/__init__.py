"""What is kept on disk, readable without this program: observations, findings, bundles of runs, and what a campaign has done already."""
