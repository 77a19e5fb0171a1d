"""What the commands do, a room for each subject; a command parses its options, calls a job and prints.

Their levels are in `tests/support/rooms.py`: a job imports those below it, and no command.
"""
