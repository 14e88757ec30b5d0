"""Fuzz the commands in this process. Check their exit codes and JSON, and that output is escaped."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

from kafkafmt.protocol.message_classes import Kind

from . import directories, seeds
from .case import Case
from .commands import Done, command
from .outcome import check, same
from .target import target
from .targets_protocol import frame_of, mutate_frame

STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Characters that can control a terminal or change the direction of text."""
NAMES = ("t-0", "orders-3", "sp ace-0", "ü-1", "esc\x1b]0;x\x07-0", "rtl\u202eabc-0", "c1\x9b31m-0", "nl\nx-0", "-0", "..-0",
         "t-0.abc-delete", "__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0", "t-99999999999", "t")  # fmt: skip
FORMATS = ("text", "json")


def command_case(chance: Random) -> Case:
    files = directories.mutated(chance)
    folders = sorted({name.partition("/")[0] for name in files if "/" in name})
    renamed = chance.choice(NAMES) if chance.random() < 0.3 else None
    if renamed and folders:
        files = {
            f"{renamed}/{n.partition('/')[2]}" if n.startswith(f"{folders[0]}/") else n: d for n, d in files.items()
        }
    return Case({"arguments": _arguments(chance), "format": chance.choice(FORMATS)}, files)


def _arguments(chance: Random) -> list[str]:
    """Return a command with options.

    The arguments contain placeholders: PATH for the log directory, OUT for a new directory, and
    FILES for all files.
    """
    name = chance.choice(("ls", "cat", "cat", "seek", "groups", "stats", "verify", "salvage", "rewrite", "dump"))
    some = {
        "ls": [["-t", "*"], ["-p", "0"]],
        "cat": [["-o", chance.choice(("0:5", "-3:", "5:", "@0:", "@1700000000003:", "7:3", ":-1"))], ["-n", "3"], ["--control"],
                ["--internal"], ["--on-error", "skip"], ["--isolation", "read_committed"], ["--bytes", chance.choice(("hex", "base64"))],
                ["--below-log-start"], ["-g", "g"], ["--key", chance.choice(("k", "", "hex:6b"))], ["--key-regex", "k|^$"],
                ["--grep", chance.choice(("v", "", "[^a]", "a+$"))], ["--header", chance.choice(("h", "h=", "\ufffd"))],
                ["--value-json", chance.choice(("a=1", "0.b=null"))], ["--only-partition-of-key"]],
        "seek": [["--offset", "0"], ["--offset", "3"], ["--timestamp", "latest"], ["--timestamp", "0"], ["--timestamp", "max-timestamp"]],
        "groups": [["--members"], ["-g", "*"], ["--at", "1700000000003"]],
        "stats": [["--deep"], ["--top", "1"]],
        "verify": [["--shallow"], ["--strict"]],
        "salvage": [["--stop-at-first"], ["--abort-open-transactions"]],
        "rewrite": [["--compact"], ["--codec", "gzip"], ["--on-error", "skip"], ["--before", "1700000000003"], ["--drop-key", "k"]],
        "dump": [["--print-data-log"], ["--deep-iteration"], ["--max-bytes", "100"], ["--index-sanity-check"], ["--verify-index-only"],
                 ["--offsets-decoder"], ["--remote-log-metadata-decoder"], ["--transaction-log-decoder"], ["--cluster-metadata-decoder"], ["--skip-record-metadata"]],
    }[name]  # fmt: skip
    made = [name, "--files", "FILES"] if name == "dump" else [name, "PATH"]
    if name == "seek":
        made += ["-t", chance.choice(("t", "t", "orders")), "-p", "0", "--offset", "1"]
    if name in ("salvage", "rewrite"):
        made += ["-O", "OUT"]
    if name in ("stats", "verify", "salvage", "rewrite"):
        made += ["-j", "1"]
    for option in some:
        made += option if chance.random() < 0.3 else []
    return made


@target("commands", command_case, quick=50)
def commands(case: Case) -> Any:
    try:
        return _run_on_directory(case)
    except (OSError, ValueError) as error:  # the file system does not accept this name
        if "Traceback" in str(error):
            raise
        check(isinstance(error, OSError) and error.filename is not None, repr(error))
        return None


def _run_on_directory(case: Case) -> Any:
    with directories.written(case.blobs) as root:
        files = ",".join(str(p) for p in sorted(root.rglob("*")) if p.is_file() and "," not in str(p))
        places = {"PATH": str(root), "OUT": str(root.with_name("out")), "FILES": files}
        words = [places.get(word, word) for word in case.params["arguments"]]
        done = command(*words, "--format", case.params["format"])
        check_output(done, case.params["format"], raw=words[0] == "dump")
        shown = [t.replace(str(root.parent), "ROOT") for t in (done.out, done.err)]
        return [done.code, *shown]


def check_output(done: Done, form: str, raw: bool = False) -> None:
    """Check that JSON output can be parsed, and that no output can control a terminal."""
    if form == "json":
        _ = done.lines
        check(
            not STEERING.search(done.out.replace("\n", "")),
            f"raw control characters in JSON: {STEERING.search(done.out)!r}",
        )
    elif not raw:  # like Kafka's tool, dump prints keys and values unchanged
        check(not STEERING.search(done.out), f"{STEERING.search(done.out)!r} in {done.out[:300]!r}")
    check(not STEERING.search(done.err), f"{STEERING.search(done.err)!r} in {done.err[:300]!r}")


STREAMS: tuple[tuple[Kind, ...], ...] = (("request",), ("response",), ("request", "response"))


def decode_case(chance: Random) -> Case:
    blobs: dict[str, bytes] = {}
    for kind in chance.choice(STREAMS):
        blobs[f"{kind}s"] = b"".join(
            mutate_frame(chance, frame_of(chance, kind)[2]) for _ in range(chance.randint(1, 4))
        )
    options = [
        o for o in (["--records"], ["--api", "1", "--api-version", "4"], ["--bytes", "base64"]) if chance.random() < 0.4
    ]
    return Case({"options": sum(options, []), "format": chance.choice(FORMATS)}, blobs)  # noqa: RUF017


@target("decode-command", decode_case, quick=50)
def decode(case: Case) -> Any:
    """Check that a line is printed for each frame, including damaged frames."""
    with directories.written(case.blobs) as root:
        words = [word for name in case.blobs for word in (f"--{name}", str(Path(root) / name))]
        done = command("decode", *words, *case.params["options"], "--format", case.params["format"])
        check_output(done, case.params["format"])
        if case.params["format"] == "json":
            for row in done.lines:
                check(
                    ("body" in row) != ("error" in row) or done.code != 0,
                    f"neither a body nor an error: {str(row)[:300]}",
                )
            if any("error" in row for row in done.lines):
                check(done.code != 0, "a damaged frame does not change the exit code")
        shown = [t.replace(str(root.parent), "ROOT") for t in (done.out, done.err)]
        return [done.code, *shown]


def groups_case(chance: Random) -> Case:
    """Return a partition of `__consumer_offsets` with mutated batches or records."""
    golden = [p for p in seeds.partition_directories() if p.name.startswith("__consumer_offsets")]
    files: dict[str, bytes] = {}
    if golden and chance.random() < 0.6:
        folder = chance.choice(golden)
        files = {f"{folder.name}/{f.name}": f.read_bytes() for f in sorted(folder.iterdir()) if f.suffix == ".log"}
        for name in files:
            files[name] = directories._change_log(chance, files[name]) if chance.random() < 0.7 else files[name]
        return Case({"format": chance.choice(FORMATS), "members": chance.random() < 0.5}, files)
    from building import batch

    from .targets_values import internal_case

    records: list[Any] = []
    while len(records) < 6:
        case = internal_case(chance)
        if case.params["topic"] == "__consumer_offsets":
            records.append((len(records), 0, case.blobs.get("key"), case.blobs.get("value"), ()))
    return Case(
        {"format": chance.choice(FORMATS), "members": chance.random() < 0.5},
        {f"__consumer_offsets-0/{0:020}.log": batch(records)},
    )


@target("groups-command", groups_case, quick=25)
def groups(case: Case) -> Any:
    with directories.written(case.blobs) as root:
        done = command(
            "groups", root, "--format", case.params["format"], *(["--members"] if case.params["members"] else [])
        )
        check_output(done, case.params["format"])
        if case.params["format"] == "json" and done.code in (0, 1):
            same(sorted(done.lines[0]), ["groups", "offsets"], "keys of the JSON")
        return [done.code, done.out, done.err.replace(str(root.parent), "ROOT")]


def diff_case(chance: Random) -> Case:
    """Return two copies of a log directory. Some files of each copy are mutated."""
    files = directories.mutated(chance)
    blobs = {f"a/{name}": data for name, data in files.items()}
    for name, data in files.items():
        if chance.random() < 0.9:
            change = name.endswith(".log") and chance.random() < 0.4
            blobs[f"b/{name}"] = directories._change_log(chance, data) if change else data
    return Case({"format": chance.choice(FORMATS), "records_only": chance.random() < 0.2}, blobs)


@target("diff-command", diff_case, quick=25)
def diff(case: Case) -> Any:
    """Check that the order of two copies does not decide whether they are equal."""
    with directories.written(case.blobs) as root:
        options = ["--records-only"] if case.params["records_only"] else []
        options += ["-j", "1", "--format", case.params["format"]]
        done = command("diff", root / "a", root / "b", *options)
        check_output(done, case.params["format"])
        back = command("diff", root / "b", root / "a", *options)
        same(back.code, done.code, "exit code")
        shown = [t.replace(str(root.parent), "ROOT") for t in (done.out, done.err)]
        return [done.code, *shown]
