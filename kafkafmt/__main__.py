"""`python -m kafkafmt` is the command `kafkafmt`."""

from .cli import main

main()
