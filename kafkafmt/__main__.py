"""Run the command `kafkafmt`, by `python -m kafkafmt`."""

from .cli import main

main()
