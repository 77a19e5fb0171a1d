"""`python -m difftest`."""

from difftest.cli import main

main()
