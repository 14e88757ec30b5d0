"""Reduce a saved input as long as it fails in the same way.

    python -m fuzz.minimise found/scan-0123456789.json            writes the smaller input over the file

List items, byte strings, batches and ranges of bytes are removed. The remaining bytes are replaced
by zeros. Each step is kept if the input still fails in the same way. CRCs of batches are corrected
after each step, because otherwise almost every step would change the failure. Each trial runs in a
child process, so that inputs which crash the process can also be minimised.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import batches, cores
from .case import Case, load, save

Fails = Callable[[Case], bool]
MOST_TRIALS = 3000


def main(arguments: Sequence[str] | None = None) -> int:
    """Minimise the files in the command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--core", choices=["native", "pure", "both"], default="both")
    options = parser.parse_args(arguments)
    cores.use_core_of_environment()
    names = cores.available() if options.core == "both" else [options.core]
    for path in options.files:
        target, case = load(path)
        signature = signature_of(target, case, names)
        if signature is None:
            print(f"{path.name}: passes")
            continue

        def fails(smaller: Case, target: str = target, signature: str = signature) -> bool:
            return signature_of(target, smaller, names) == signature

        smaller = minimised(case, fails)
        save(smaller, path, target, signature)
        print(f"{path.name}: {case.size} bytes, now {smaller.size}: {signature}")
    return 0


def signature_of(name: str, case: Case, names: Sequence[str]) -> str | None:
    """Run an input in a child process, and return the signature of its failure, or None if it passes."""
    from .execute import run_case
    from .target import targets

    target = targets()[name]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, 2)
        failure = run_case(target, case, names).failure
        os.write(write, b"" if failure is None else failure.signature.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        output = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return f"the process ended: {os.waitstatus_to_exitcode(status)}" if status else output or None


def minimised(case: Case, fails: Fails) -> Case:
    """Return a smaller input that fails in the same way, after at most a few thousand trials."""
    trials = 0
    progress = True
    while progress and trials < MOST_TRIALS:
        progress = False
        for smaller in _smaller(case):
            trials += 1
            if trials > MOST_TRIALS:
                break
            if fails(smaller):
                case, progress = smaller, True
                break
    return _zeroed(case, fails)


def _smaller(case: Case) -> Iterator[Case]:
    """Yield copies of an input, each without one part. The largest parts are removed first."""
    for params in _smaller_values(case.params):
        yield Case(params, case.blobs)
    for name in case.blobs if len(case.blobs) > 1 else ():
        yield Case(case.params, {n: d for n, d in case.blobs.items() if n != name})
    for name, data in sorted(case.blobs.items(), key=lambda item: -len(item[1])):
        parts = batches.split(data)
        if len(parts) > 1:
            for i in range(len(parts)):
                yield _with(case, name, b"".join(parts[:i] + parts[i + 1 :]))
        size = len(data) // 2
        while size:
            for at in range(0, len(data), size):
                less = data[:at] + data[at + size :]
                yield _with(case, name, less)
                if len(parts) == 1 and len(less) > 20:
                    yield _with(case, name, batches.repaired(batches.with_length(less)))
            size //= 2


def _smaller_values(value: Any) -> Iterator[Any]:
    """Yield copies of a JSON value, each without one list item or with one shorter text."""
    if isinstance(value, list):
        size = len(value)
        while size:
            for at in range(0, len(value), size):
                yield value[:at] + value[at + size :]
            size //= 2
    if isinstance(value, str) and len(value) > 8:
        yield value[: len(value) // 4 * 2]
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        for smaller in _smaller_values(inner):
            changed = dict(value) if isinstance(value, dict) else list(value)
            changed[key] = smaller
            yield changed


def _with(case: Case, name: str, data: bytes) -> Case:
    return Case(case.params, case.blobs | {name: data})


def _zeroed(case: Case, fails: Fails) -> Case:
    """Replace as many bytes of an input as possible with zeros, without changing the failure."""
    for name in list(case.blobs):
        data = case.blobs[name]
        size = max(len(data) // 4, 1)
        while size >= 4:
            for at in range(0, len(data), size):
                zeros = bytes(len(data[at : at + size]))
                if data[at : at + size] != zeros:
                    less = data[:at] + zeros + data[at + size :]
                    if fails(_with(case, name, less)):
                        data = less
                        case = _with(case, name, data)
            size //= 4
    return case


if __name__ == "__main__":
    sys.exit(main())
