"""Run the command `kafkafmt`, for calls of the form `python -m kafkafmt`."""

from .cli import main

main()
