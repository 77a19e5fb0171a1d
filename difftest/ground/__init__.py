"""What every other room stands on: errors, plug-ins, packages, variables, the clock, a user's files."""
