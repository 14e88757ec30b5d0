"""Fuzz the replay of metadata logs: random and contradicting records, damaged logs, snapshots and small files."""

from __future__ import annotations

import subprocess
import uuid
from random import Random
from typing import Any

from building import CONTROL, batch, record

from kafkafmt.internal_topics import decode as internal
from kafkafmt.kraft.models import VIEWS
from kafkafmt.messages import layout_of

from . import directories, seeds
from .case import Case
from .commands import command
from .outcome import check, same
from .target import target
from .targets_commands import FORMATS, check_output
from .targets_values import control_case, seeds_core

FOLDER = "__cluster_metadata-0"
IDS = [uuid.UUID(int=number) for number in (0, 1, 1 << 100)]
WORDS = ("", "a", "ü\x1b]0;\x07", "a\n'b", "ssl.key.password", "\u202e", "$(touch x)", "[x]")


def random_fields(chance: Random, message: Any, version: int) -> Any:
    """Return a message with one of a few ids and names, so that many records of a log concern the same object."""
    made = message()
    for f in message.SCHEMA.fields:
        if version not in f.versions or chance.random() < 0.2:
            continue
        count = chance.randrange(3) if f.array else 1
        values = [_value(chance, f, message, version) for _ in range(count)]
        setattr(made, f.name, values if f.array else values[0])
    return made


def _value(chance: Random, f: Any, message: Any, version: int) -> Any:
    if f.struct is not None:
        return random_fields(chance, message.STRUCTS[f.type], version)
    if f.type == "uuid":
        return chance.choice(IDS)
    if f.type == "string":
        return chance.choice(WORDS)
    if f.type == "bytes":
        return b"secret"
    if f.type == "bool":
        return chance.random() < 0.5
    if f.type == "float64":
        return chance.choice((0.0, 1.5, 1e308, float("inf"), float("nan")))
    return (
        chance.choice((0, 1, 2, 3, 4, 127)) if f.type.startswith("u") else chance.choice((-2, -1, 0, 1, 2, 3, 4, 127))
    )


def random_value(chance: Random) -> bytes:
    """Return a metadata record with its frame."""
    number, made = chance.choice(list(internal._metadata().items()))
    assert number is not None
    version = chance.choice(range(made.VERSIONS.first, made.VERSIONS.last + 1))
    body = seeds_core().write_messages([layout_of(made, version)], [random_fields(chance, made, version)])
    return b"\1" + bytes([number]) + bytes([version]) + b"".join(map(bytes, body))


def random_batches(chance: Random, count: int, base: int = 0) -> bytes:
    parts = []
    for n in range(count):
        if chance.random() < 0.1:
            blobs = control_case(chance).blobs
            made, flags = record(0, 0, blobs.get("key", b""), blobs.get("value")), CONTROL
        else:
            made, flags = record(0, 0, None, random_value(chance)), 0
        parts.append(batch([made], base_offset=base + n, flags=flags))
    return b"".join(parts)


def metadata_case(chance: Random) -> Case:
    golden = [p for p in seeds.partition_directories() if p.name == FOLDER]
    if golden and chance.random() < 0.4:
        folder = chance.choice(golden)
        files = {f"{FOLDER}/{f.name}": f.read_bytes() for f in sorted(folder.iterdir())}
    else:
        count = chance.choice((3, 20))
        files = {f"{FOLDER}/{0:020}.log": random_batches(chance, count)}
        if chance.random() < 0.5:
            files[f"{FOLDER}/{chance.randrange(count):020}-0000000001.checkpoint"] = random_batches(chance, 5)
        files[f"{FOLDER}/quorum-state"] = b'{"leaderId":1,"currentVoters":[{"voterId":1}]}'
        files["meta.properties"] = b"version=1\nnode.id=1\ncluster.id=\x1b]0;x\n"
    for name in files:
        if chance.random() < 0.3:
            files[name] = directories._change_log(chance, files[name])
    at = [["--at", text] for text in ("0", "2", "100", "@0", "@1700000000001")]
    options = chance.choice(([], [], [], *at))
    form = chance.choice(FORMATS)
    view = [chance.choice(VIEWS)] if chance.random() < 0.3 else []
    return Case({"options": [*view, *options], "format": form}, files)


@target("metadata-command", metadata_case, quick=60)
def metadata(case: Case) -> Any:
    with directories.written(case.blobs) as root:
        done = command("metadata", root, *case.params["options"], "--format", case.params["format"])
        check_output(done, case.params["format"])
        if case.params["format"] == "json" and done.out:
            same(len(done.lines), 1, "number of JSON objects")
        for secret in ("secret", "c2VjcmV0"):
            check(secret not in done.out, f"a credential is printed: {done.out[:300]}")
        script = command("metadata", root, "--as", "commands")
        if script.out:
            shell = subprocess.run(["sh", "-n"], input=script.out.encode(), capture_output=True, check=False)
            check(shell.returncode == 0, f"the script is not valid: {shell.stderr!r}")
            lines = _calls_of(script.out)
            check(all(line.startswith(("#", "kafka-")) for line in lines), f"unexpected commands: {lines}")
        different = command("metadata", "diff", root, root)
        check("added" not in different.out and "removed" not in different.out, different.out[:300])
        shown = [t.replace(str(root.parent), "ROOT") for t in (done.out, done.err, script.out)]
        return [done.code, *shown]


def _calls_of(script: str) -> list[str]:
    """Return the first lines of all commands after the usage. Quoted texts can contain newlines.

    A single quote in a quoted text is written as a single quote in double quotes.
    """
    body, found, quoted = script.partition("suffix=.sh; fi\n")[2], [], False
    for line in body.split("\n"):
        if line and not quoted:
            found.append(line)
        if quoted or not line.startswith("#"):
            quoted ^= line.replace('"\'"', "").count("'") % 2 == 1
    return found
