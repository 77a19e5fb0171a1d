"""What is installed: environments with other packages, and whether this machine is ready."""
