"""What is kept on disk, readable without this program: observations, findings, bundles, campaigns."""
