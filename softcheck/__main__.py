"""``python -m softcheck`` is the ``softcheck`` command."""

from softcheck.cli.main import main

main()
