"""What a release changes: scripts of known faults and some cases on new packages, and whether fixes hold."""
