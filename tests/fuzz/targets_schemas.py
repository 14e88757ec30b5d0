"""Fuzz `kafkafmt schemas` with random and contradicting records, and with damaged logs and files."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from building import batch, record

from . import directories
from .case import Case
from .commands import command
from .mutate_bytes import mutate
from .outcome import check
from .target import target
from .targets_commands import FORMATS, check_output

SUBJECTS = ("a", "a", "b/1", ":.lab:a", ":.lab:", "", "..", "ü\x1b]0;\x07", "a" * 300)
TEXTS = ('"string"', '{"type":"record","name":"R","fields":[]}', 'syntax = "proto3";', "", "\x1b\u202e", "[" * 2000)
KINDS = ("SCHEMA",) * 8 + ("CONFIG", "DELETE_SUBJECT", "CLEAR_SUBJECT", "NOOP", "MODE")
NUMBERS = (0, 1, 1, 2, 3, 2**31 - 1)
TYPES: tuple[Any, ...] = (None, "AVRO", "JSON", "PROTOBUF", "XML")
REFERENCES: tuple[Any, ...] = (None, [], [{"name": "n", "subject": "a", "version": 1}])
OBJECTS: tuple[Any, ...] = (
    None,
    {},
    {"properties": {"__enc__": "true"}},
    {"tags": {"a": ["b"]}},
    {"domainRules": [{"type": "ENCRYPT"}]},
)
WRONG: tuple[Any, ...] = (None, 1, -1, 2**31, 1.5, True, "false", "\ud800", [], [{}], {}, {"tags": {"a": ["b", 1]}})


def _member(chance: Random, usual: tuple[Any, ...]) -> Any:
    return chance.choice(WRONG if chance.random() < 0.02 else usual)


def random_pair(chance: Random) -> tuple[bytes, bytes | None]:
    subject, version = _member(chance, SUBJECTS), _member(chance, NUMBERS)
    key = {"keytype": _member(chance, KINDS), "subject": subject, "version": version, "magic": 1}
    if chance.random() < 0.2:
        key |= {"seq": _member(chance, NUMBERS), "node": _member(chance, NUMBERS)}
    value = {
        "subject": subject,
        "version": version,
        "id": _member(chance, NUMBERS),
        "schema": _member(chance, TEXTS),
        "schemaType": _member(chance, TYPES),
        "references": _member(chance, REFERENCES),
        "metadata": _member(chance, OBJECTS),
        "ruleSet": _member(chance, OBJECTS),
        "deleted": _member(chance, (None, False, True)),
        "compatibilityLevel": _member(chance, (None, "FULL")),
    }
    raw = [json.dumps(part).encode() for part in (key, value)]
    if chance.random() < 0.1:
        raw[chance.randrange(2)] = mutate(chance, chance.choice(raw))
    return raw[0], None if chance.random() < 0.1 else raw[1]


def schemas_case(chance: Random) -> Case:
    records = [batch([record(0, 0, *random_pair(chance))], base_offset=n) for n in range(chance.choice((3, 30)))]
    files = {"_schemas-0/" + f"{0:020}.log": b"".join(records)}
    if chance.random() < 0.2:
        files = {name: directories._change_log(chance, content) for name, content in files.items()}
    return Case({"deleted": chance.random() < 0.5, "format": chance.choice(FORMATS)}, files)


@target("schemas-command", schemas_case, quick=60)
def schemas(case: Case) -> Any:
    with directories.written(case.blobs) as root:
        arguments = ["--format", case.params["format"], *(["--deleted"] if case.params["deleted"] else [])]
        done = command("schemas", root, *arguments)
        check_output(done, case.params["format"])
        saved = command("schemas", root, "--save", root / "saved")
        if saved.code in (0, 1):
            again = command("schemas", root / "saved", *arguments)
            check(_subjects(again) == _subjects(done), "the saved registry differs")


def _subjects(done: Any) -> Any:
    try:
        return json.loads(done.out)["subjects"]
    except ValueError:
        return done.out
