"""Describe the error of a Spark task in a single line, with its cause, the host and a remedy.

The data source and the export use the functions of this module. The driver receives the error of a
Python worker only as a traceback in the message of a Java exception. Therefore, the functions parse
this message.
"""

from __future__ import annotations

import re

from .hosts import host_name

TRACEBACK = "Traceback (most recent call last):"
CHAINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
"""Lines that Python prints between the traceback of a cause and the traceback of the resulting error."""
JAVA_CLASS = re.compile(r"^(: )?([a-z]\w*\.)+[A-Z]\w*(Exception|Error): ")


def missing_module(text: str) -> str:
    """If an error reports a missing Python module, return advice to install it on the executors, or else ""."""
    if not re.search(r"No module named '(\w+)", text):
        return ""
    return (
        ": the Python of the executors must also have this module; install 'kafkafmt[spark]' for the executors"
        " (PYSPARK_PYTHON contains the path of their Python), or ship an environment with spark.archives"
    )


def in_one_line(error: OSError) -> str:
    """Return a single line that contains the message of an error, its first cause and the name of this host."""
    deepest: BaseException = error
    while deepest.__cause__ is not None:
        deepest = deepest.__cause__
    line, cause = _line(error), _line(deepest)
    if isinstance(deepest, OSError) and deepest.strerror and deepest.strerror in line:
        cause = line
    host = "" if "(on host " in line else f" (on host {host_name()})"
    return f"{line}{_because(line, cause)}{host}"


def cause_of(text: str) -> str:
    """Extract the cause of a Spark error from its text, as a single line."""
    # This is the exception of a Python worker, its first cause and the host; or else the first line
    # of the Java exception and its first cause.
    before, traceback, _ = text.rpartition(TRACEBACK)
    if traceback:
        raised = _chain(text)
        found = raised[-1] + _because(raised[-1], raised[0])
        return f"a Python worker raised {found}{missing_module(found)}{_worker_host(before)}"
    lines = [
        line.strip()
        for line in text.splitlines()
        if line.strip() and not line.startswith("An error occurred while calling")
    ]
    if not lines:
        return ""
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    head = JAVA_CLASS.sub("", lines[0])
    return head + (_because(head, causes[-1]) if causes else "")


def _because(line: str, cause: str) -> str:
    """Return "; the cause is …" as the end of an error message, or an empty string if `line` already contains the cause."""
    return "" if not cause or cause in line or JAVA_CLASS.sub("", cause) in line else f"; the cause is {cause}"


def _line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    text = (str(error).splitlines() or [""])[0]
    return text if isinstance(error, OSError) and text else f"{type(error).__name__}: {text}"


def _chain(text: str) -> list[str]:
    """Return the exceptions in the tracebacks at the end of a text, beginning with the root cause."""
    *earlier, last = text.split(TRACEBACK)[1:]
    chain = [_raised(last)]
    for frames in reversed(earlier):
        if not frames.rstrip().endswith(CHAINED):
            break
        chain.insert(0, _raised(frames))
    return chain


def _raised(frames: str) -> str:
    """Return the exception at the end of a Python traceback as one line, without a Java stack trace after it."""
    found: list[str] = []
    for line in frames.splitlines():
        if not line.strip() or line.startswith(("\tat ", "Caused by: ", "Driver stacktrace", *CHAINED)):
            if found:
                break
        elif found or not line[0].isspace():
            found.append(line.strip())
    return " ".join(found)


def _worker_host(text: str) -> str:
    """Return the host of a failed task as " (on host …)". If `text` names no host, return an empty string."""
    hosts = re.findall(r"\(TID \d+\) \((\S+) executor", text)
    return f" (on host {hosts[-1]})" if hosts else ""
