"""The commands, a file each: a module whose `command` is a `click.Command` of the same name.

A command imports the packages with heavy dependencies inside its function, so that asking for help costs nothing.
"""
