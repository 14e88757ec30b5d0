"""Identify processes. This makes it possible to detect whether the owner of a lock or directory has ended."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path


def process_space() -> str:
    """Return an identifier of this machine's current boot and the pid namespace of this process."""
    # Together with the pid and the start time of a process, it identifies the process uniquely.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        text = boot + os.readlink("/proc/self/ns/pid")
    except OSError:
        text = f"unknown {uuid.getnode()}"
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def start_time(pid: int) -> int | None:
    """Return the start time of a process, in clock ticks since boot. If the process has ended, return None."""
    fields = process_status(pid)
    return None if fields is None or fields[1] in "ZX" else int(fields[20])


def process_status(pid: int) -> list[str] | None:
    """Return the fields of /proc/<pid>/stat from the command name on, or None if the file cannot be read."""
    # The fields begin with the command name, the process state and the pid of the parent process.
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    return [name, *rest.split()]
