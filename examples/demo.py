"""Export log directories of real brokers to Parquet with Spark (`make demo`). One of them is damaged.

python examples/demo.py [DIRECTORY]     # directory of the result, ./demo-output by default
"""

import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

import kafkafmt
from kafkafmt._backend import backend_reason
from kafkafmt.spark.quiet import quiet_start
from kafkafmt.spark.session import make_session

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden"
LOGS = {
    "kafka-4.3.1/codecs/log": "one topic per codec: none, gzip, snappy, lz4, zstd",
    "kafka-3.9.2/compacted/log": "compacted topics, with gaps in their offsets",
    "kafka-4.3.1/transactions/log": "transactions, committed and aborted",
    "kafka-3.9.2/jbod/log/data-1": "a broker with two disks …",
    "kafka-3.9.2/jbod/log/data-2": "… and this is the second",
    "kafka-4.3.1/torn/log": "damaged on purpose: changed bytes, truncated files",
}
QUERY = """
    SELECT topic, partition, offset, date_format(timestamp, 'yyyy-MM-dd HH:mm:ss') AS timestamp,
           decode(key, 'UTF-8') AS key, decode(value, 'UTF-8') AS value
    FROM records WHERE topic = 'torn-flip-old' AND offset BETWEEN 142 AND 148 ORDER BY offset"""

console = Console(highlight=False)


def heading(text: str) -> None:
    console.print(f"\n[bold cyan]{text}[/bold cyan]")


def show_input() -> None:
    subprocess.run([sys.executable, ROOT / "tests" / "support" / "golden_archives.py"], check=True)  # unpacks the logs
    heading("1  Log directories that Kafka brokers wrote")
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, what in LOGS.items():
        table.add_row(f"tests/golden/{name}", f"[dim]{what}[/dim]")
    console.print(table)
    core = f"the [bold]{kafkafmt.backend}[/bold] core decodes them"
    console.print(core if kafkafmt.backend == "native" else f"[yellow]{core}, which is slow: {backend_reason}[/yellow]")


def export(output: Path) -> None:
    shown = "kafkafmt export tests/golden/kafka-…/log --master 'local[*]' --overwrite --output " + relative(output)
    heading("2  The command that exports them to Parquet, on Spark")
    console.print(f"[green]$[/green] {shown}\n", soft_wrap=True)
    paths = [str(GOLDEN / name) for name in LOGS]
    command = [
        sys.executable,
        "-m",
        "kafkafmt",
        "export",
        *paths,
        "--output",
        str(output),
        "--overwrite",
        "--master",
        "local[*]",
    ]
    code = subprocess.run(command, check=False).returncode
    if code not in (0, 1):
        sys.exit(f"demo: the export ended with exit code {code}")
    console.print(
        "[dim]exit code 1: there was damage; everything intact was exported[/dim]" if code else "[dim]exit code 0[/dim]"
    )


def read_back(output: Path) -> None:
    heading("3  Read back with Spark SQL: the rows around the damage")
    with quiet_start():
        spark = make_session("local[*]", "kafkafmt demo")
    spark.read.parquet(str(output / "data")).createOrReplaceTempView("records")
    rows = spark.sql(QUERY).collect()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0].asDict():
        table.add_column(
            name, justify="right" if name in ("partition", "offset") else "left", overflow="ellipsis", no_wrap=True
        )
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and row.offset != before.offset + 1:
            table.add_row(
                "",
                "",
                f"[red]{before.offset + 1} to {row.offset - 1}[/red]",
                "[red]are in the quarantine[/red]",
                "",
                "",
            )
        table.add_row(*("null" if v is None else str(v) for v in row))
    console.print(table)
    ((total, topics),) = spark.sql("SELECT count(*), count(DISTINCT topic) FROM records").collect()
    console.print(f"[dim]{total:,} records of {topics} topics in all[/dim]")
    spark.stop()


def what_next(output: Path) -> None:
    heading("4  With a directory of your own")
    command = relative(Path(sys.executable).with_name("kafkafmt"))
    for line, what in (
        (f"{command} ls /var/lib/kafka/data", "lists the partitions"),
        (f"{command} verify /var/lib/kafka/data", "reports damage, and which offsets may be lost"),
        (f"{command} cat /var/lib/kafka/data -t orders -n 10", "prints some records"),
        (f"{command} export /var/lib/kafka/data --output /archive/kafka", "exports everything to Parquet"),
    ):
        console.print(f"  {line:<{len(command) + 55}}  [dim]# {what}[/dim]", soft_wrap=True)
    console.print(f"  [dim]and in Python:[/dim] spark.read.parquet({relative(output / 'data')!r})", soft_wrap=True)


def relative(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def main() -> None:
    output = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-output").absolute()
    show_input()
    export(output)
    read_back(output)
    what_next(output)


main()
