"""`python -m service` is the `gramian` command."""

from service.cli import main

main()
