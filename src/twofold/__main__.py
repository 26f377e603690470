"""python -m twofold, as the command."""

from twofold.cli import main

main()
