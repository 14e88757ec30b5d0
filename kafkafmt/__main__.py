"""Run the command `kafkafmt` when Python is called as `python -m kafkafmt`."""

from .cli import main

main()
