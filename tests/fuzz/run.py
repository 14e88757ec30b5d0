"""Run each fuzz target in a separate process, and save the inputs that fail.

    python -m fuzz.run                                      every target for 10 seconds on both cores
    python -m fuzz.run --target scan --target validate --seconds 600 --seed 7
    python -m fuzz.run --core native --executions 1000
    python -m fuzz.run --replay found/scan-0123456789.json

A target runs the inputs 0, 1, 2, … of the seed. If a process crashes, its current input is a
failure, and a new process continues with the next input. The exit code is 1 if a failure occurred
that `known.py` does not list.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import mmap
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import cores

CPU_SECONDS_PER_INPUT = 60
MEMORY_BYTES = 6 << 30
MOST_FAILURES = 20
"""Number of different failures after which the run of a target ends."""


class TooLongError(Exception):
    """Raised if an input needs too much CPU time."""


def _stop_input(*_: object) -> None:
    raise TooLongError(f"more than {CPU_SECONDS_PER_INPUT} seconds of processor time")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run targets or saved inputs as the command-line arguments say, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", help="run only this target; may be repeated")
    parser.add_argument("--seconds", type=float, default=10, help="for each target (default: 10)")
    parser.add_argument("--executions", type=int, help="for each target, in place of seconds")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--core", choices=["native", "pure", "both"], default="both")
    parser.add_argument(
        "--found", type=Path, help="where failing inputs are saved (default: found/ next to this module)"
    )
    parser.add_argument("--log", type=Path, help="append a line of JSON for each target to this file")
    parser.add_argument("--replay", type=Path, nargs="+", help="run saved inputs instead")
    parser.add_argument("--list", action="store_true", help="print the targets")
    options = parser.parse_args(arguments)
    cores.use_core_of_environment()
    from .target import targets

    if options.list:
        print("\n".join(targets()))
        return 0
    names = cores.available() if options.core == "both" else [options.core]
    if options.replay:
        return _replay(options.replay, names)
    unknown = set(options.target or ()) - set(targets())
    if unknown:
        parser.error(f"there is no target {sorted(unknown)[0]}; there are {', '.join(targets())}")
    failed = 0
    for name in options.target or targets():
        report = _run_target(name, names, options)
        failed += bool(report["failures"])
        print(_line(report), flush=True)
        if options.log:
            with options.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(report) + "\n")
    return int(failed > 0)


def _line(report: dict[str, Any]) -> str:
    known = "".join(f", known {item}: {n}" for item, n in report["known"].items())
    failures = "".join(
        f"\n    {count} x {signature}: {path}" for signature, (count, path) in report["failures"].items()
    )
    rate = report["executions"] / max(report["seconds"], 0.001)
    return f"{report['target']:24} {report['executions']:9,} executions, {rate:7.0f}/s, {report['rejected']:,} rejected{known}{failures}"


def _run_target(name: str, names: Sequence[str], options: Any) -> dict[str, Any]:
    """Run a target in child processes for a given time, and return a report."""
    report: dict[str, Any] = {
        "target": name,
        "seed": options.seed,
        "cores": list(names),
        "executions": 0,
        "rejected": 0,
        "seconds": 0.0,
    }
    report |= {"known": {}, "failures": {}}
    shared = mmap.mmap(-1, 8)
    begin, number = time.monotonic(), 0
    while len(report["failures"]) < MOST_FAILURES:
        left = options.seconds - (time.monotonic() - begin)
        if left <= 0 if options.executions is None else number >= options.executions:
            break
        read, write = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.close(read)
            _child(name, names, options, number, left, shared, write)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            parts = [json.loads(line) for line in pipe.read().splitlines()]
        _, status = os.waitpid(child, 0)
        for part in parts:
            _add(report, part)
        last = int.from_bytes(shared[:8], "little")
        report["executions"] += last - number
        if status == 0:
            break
        _add(report, _crash(name, last, status, options))
        number = last + 1
        report["executions"] += 1
    report["seconds"] = round(time.monotonic() - begin, 1)
    return report


def _add(report: dict[str, Any], part: dict[str, Any]) -> None:
    report["rejected"] += part.get("rejected", 0)
    for item, n in part.get("known", {}).items():
        report["known"][item] = report["known"].get(item, 0) + n
    for signature, (count, path) in part.get("failures", {}).items():
        before = report["failures"].get(signature, (0, path))
        report["failures"][signature] = (before[0] + count, before[1])


def _child(
    name: str, names: Sequence[str], options: Any, number: int, seconds: float, shared: mmap.mmap, pipe: int
) -> None:
    """Run inputs from `number` onwards, write a report to the pipe, and end the process.

    `shared` contains the number of the input that is currently running.
    """
    from .execute import run_case
    from .target import targets

    faulthandler.enable()
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # ASAN reserves terabytes of address space
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGPROF, _stop_input)
    target, end = targets()[name], time.monotonic() + seconds
    found: dict[str, tuple[int, str]] = {}
    known: Counter[str] = Counter()
    rejected, reported = 0, time.monotonic()

    def report() -> None:
        nonlocal rejected, reported
        os.write(pipe, json.dumps({"rejected": rejected, "known": known, "failures": found}).encode() + b"\n")
        rejected, reported = 0, time.monotonic()
        known.clear()
        found.clear()

    seen: set[str] = set()
    while len(seen) < MOST_FAILURES and (
        time.monotonic() < end if options.executions is None else number < options.executions
    ):
        shared[:8] = number.to_bytes(8, "little")
        case = target.case(options.seed, number)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_PER_INPUT)
        result = run_case(target, case, names)
        signal.setitimer(signal.ITIMER_PROF, 0)
        rejected += result.rejected
        failure = result.failure
        if failure is not None and failure.known:
            known[failure.known] += 1
        elif failure is not None:
            count, path = found.get(failure.signature, (0, ""))
            if failure.signature not in seen:
                seen.add(failure.signature)
                path = save_failure(name, case, failure.signature, failure.text, options, number)
            found[failure.signature] = (count + 1, path)
        number += 1
        if failure is not None or time.monotonic() - reported > 1:
            report()
    shared[:8] = number.to_bytes(8, "little")
    report()
    os._exit(0)


def _crash(name: str, number: int, status: int, options: Any) -> dict[str, Any]:
    """Save the input on which a child process crashed."""
    from .target import targets

    signature = (
        f"the process ended: {'signal' if os.WIFSIGNALED(status) else 'exit code'} {os.waitstatus_to_exitcode(status)}"
    )
    path = save_failure(name, targets()[name].case(options.seed, number), signature, signature, options, number)
    return {"failures": {signature: (1, path)}}


def save_failure(name: str, case: Any, signature: str, text: str, options: Any, number: int) -> str:
    """Save a failing input under a name that depends on the failure, and print the failure."""
    from .case import FOUND, save

    path = (options.found or FOUND) / f"{name}-{hashlib.sha1(signature.encode()).hexdigest()[:10]}.json"
    print(f"\n{name}, seed {options.seed}, input {number}: {text}\n", flush=True)
    if not path.exists():
        save(case, path, name, f"seed {options.seed}, input {number}: {signature}")
    return str(path)


def _replay(paths: Sequence[Path], names: Sequence[str]) -> int:
    from .case import load
    from .execute import run_case
    from .target import targets

    failed = 0
    for path in paths:
        name, case = load(path)
        failure = run_case(targets()[name], case, names).failure
        print(f"{path.name}: {'passes' if failure is None else failure.text}")
        failed += failure is not None
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
