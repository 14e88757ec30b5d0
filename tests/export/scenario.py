"""One export in a process of its own, with an accident: `scenario.py '{"paths": …, "output": …, "accident": …}'`.

Accidents of a task, on its first attempt: "crash" (its process is killed halfway through the file), "error" (it raises halfway), "slow"
(it takes so long that Spark starts a second one, and then writes on). Accidents of the driver: "die at planning",
"die at exporting", "die at placing", "die at publishing" (kill -9 of itself), "hang" (waits in the middle, for a signal).
Prints the report, and on stderr how many attempts there were.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from kafkafmt.log import discover
from kafkafmt.spark.export import ExportOptions
from kafkafmt.spark.export.job import Export
from kafkafmt.spark.export.staging import Staging
from kafkafmt.spark.session import make_session


def writer(accident, notes):
    """The task's function, with an accident; pickled by value, so that executors need not have this file."""

    def write(number, split, settings):
        from pyspark import TaskContext

        from kafkafmt.spark.export.parquet import write_split

        first = TaskContext.get().attemptNumber() == 0
        os.makedirs(notes, exist_ok=True)
        with open(os.path.join(notes, f"{number}-{TaskContext.get().attemptNumber()}-{os.getpid()}"), "w") as note:
            note.write(str(os.getppid()))
        if first and number % 3 == 1 and accident in ("crash", "error"):
            with open(settings.attempts / f"{number}-half.parquet", "wb") as half:
                half.write(b"PAR1 and no more")
            if accident == "crash":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("an accident")
        manifest = write_split(number, split, settings)
        if accident == "slow" and first and number == 1:
            time.sleep(120)
            with open(settings.attempts / f"{number}-late.parquet", "wb") as late:
                late.write(b"PAR1 too late")
        return manifest

    return write


def main(wish):
    accident, paths = wish.get("accident", ""), wish["paths"]
    spark = make_session(wish.get("master", "local[2]"), "scenario", **wish.get("conf", {}))
    found = discover(paths)
    options = ExportOptions(
        tuple(paths), wish["output"], overwrite=wish.get("overwrite", False), split_bytes=wish.get("split_bytes")
    )

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def progress(step, done, total):
        if accident == f"die at {step}":
            die()
        if accident == "hang" and step == "exporting":
            print("hanging", file=sys.stderr, flush=True)
            time.sleep(600)

    if accident == "die at placing":
        place = Staging.place

        def place_once(self, attempt, target):
            place(self, attempt, target)
            die()

        Staging.place = place_once
    if accident == "die at publishing":
        Staging.publish = lambda self: die()
    report = Export(found, found.partitions, options, lambda m: print(m, file=sys.stderr)).run(
        spark, progress, writer(accident, wish["notes"])
    )
    if accident == "slow":
        time.sleep(1)
    spark.stop()
    print(json.dumps(report.to_dict()))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
