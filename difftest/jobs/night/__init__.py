"""A night: replays, new cases, drafts of what is new, and what has gone missing since the last one."""
