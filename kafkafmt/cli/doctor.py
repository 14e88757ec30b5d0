"""Implement `kafkafmt doctor`, which describes the installation."""

from __future__ import annotations

import click

from ..support.installation import Installation
from ..support.installation import doctor as describe_installation
from ..support.text import encode_json
from .options import format_option
from .output import show, show_table


@click.command(epilog="\b\nExample: kafkafmt doctor")
@format_option
def doctor(output_format: str) -> int:
    """Show the installed packages, whether native or pure-Python code is used, and what each command still needs.

    An extra is a group of optional packages. For each extra that is not complete, the command shows
    how to install what is missing.
    """
    found = describe_installation()
    if output_format == "json":
        click.echo(encode_json(found.to_dict()))
    else:
        show_report(found)
    return 0


def show_report(found: Installation) -> None:
    show(f"kafkafmt {found.version}, Python {found.python}, {found.platform}")
    show(f"core: {found.core} ({found.core_reason})")
    fast = [f"{codec} ({library})" for codec, library in found.codecs.items() if library]
    slow = [f"{codec} ({found.codec_packages[codec]})" for codec, library in found.codecs.items() if not library]
    show(f"decompressed without the GIL: {', '.join(fast) or 'no codec'}")
    if slow:
        show(f"decompressed with a call of Python for each batch: {', '.join(slow)}")
    java = found.java
    show(f"Java: {java.release} ({java.path})" if java.ready else f"Java: {java.problem}")
    show("")
    show_table(("package", "version"), [(name, version or "not installed") for name, version in found.packages.items()])
    show("")
    extras = [(e.name or "(required)", "yes" if e.ready else "no", e.install or "") for e in found.extras]
    show_table(("extra", "ready", "to install"), extras)
    show("")
    uses = [(u.name, ", ".join(u.needs), "yes" if u.ready else "no", ", ".join(u.missing)) for u in found.uses]
    show_table(("use", "needs", "ready", "missing"), uses)
