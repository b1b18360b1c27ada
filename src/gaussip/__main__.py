"""``python -m gaussip`` is the command."""

from gaussip.cli import main

main()
