"""What a user sees while a command runs: lines, signs of life, JSON."""
