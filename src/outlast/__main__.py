"""`python -m outlast` is the command line."""

from outlast.cli import main

main()
