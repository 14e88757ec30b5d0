"""Implement `kafkafmt make`, which writes rows as Kafka records to a new log directory."""

from __future__ import annotations

import click

from ..constants import Codec as CodecName
from ..making.make_log import TIMESTAMP_TYPES, MakeReport
from ..making.make_log import make as make_log
from ..making.row_writer import ENCODINGS
from ..support.text import counted, encode_json
from .new_directory import new_directory
from .options import ByteSize, Codec, LocalPath, WholeNumber, format_option
from .output import show, show_table, tell, with_option_names


@click.command(
    epilog="\b\nExample: kafkafmt make --from rows.parquet --topic orders --partitions 6 --output /tmp/kafka-data"
)
@click.option(
    "--from",
    "source",
    required=True,
    metavar="FILE",
    type=LocalPath(),
    help="Parquet file, CSV file, or file with JSON lines. If FILE is -, read stdin; its default format is JSON lines.",
)
@click.option(
    "--output", "-O", required=True, metavar="DIR", type=LocalPath(), help="New or empty log directory to write."
)
@click.option(
    "-t",
    "--topic",
    metavar="NAME",
    help="Topic of all rows. By default, the column topic contains the topic of each row.",
)
@click.option(
    "-P",
    "--partitions",
    metavar="N",
    type=WholeNumber(min=1),
    default=1,
    show_default=True,
    help="Number of partitions of each topic.",
)
@click.option(
    "--input-format",
    type=click.Choice(["parquet", "csv", "json"]),
    help="Format of FILE. By default, it is derived from the suffix of the file name.",
)
@click.option("--codec", type=Codec(), default="none", show_default=True, help="Codec of the batches, such as zstd:3.")
@click.option(
    "--timestamp-type",
    type=click.Choice(TIMESTAMP_TYPES),
    default="CreateTime",
    show_default=True,
    help="Timestamp type of the records. With LogAppendTime, all records get the current time.",
)
@click.option(
    "--bytes",
    "encoding",
    type=click.Choice(ENCODINGS),
    help="Meaning of keys, values and header values that are text: the output of cat with the same option. By default, "
    r"text is written unchanged, and text with \\xNN is rejected if cat may have printed it for bytes that are not UTF-8.",
)
@click.option(
    "--batch-size", type=ByteSize(), default="16384", show_default=True, help="Largest size of a batch, in bytes."
)
@click.option(
    "--segment-size", type=ByteSize(), default="1g", show_default=True, help="Largest size of a segment, in bytes."
)
@format_option
def make(
    source: str,
    output: str,
    topic: str | None,
    partitions: int,
    input_format: str | None,
    codec: tuple[CodecName, int | None],
    timestamp_type: str,
    encoding: str | None,
    batch_size: int,
    segment_size: int,
    output_format: str,
) -> int:
    """Write a log directory from the rows of a file, as test data.

    FILE can have these columns: value (required), key, headers, timestamp, partition and topic.
    Except for timestamp, these are the columns of Spark's Kafka sink. Keys and values are text or
    binary. A row with a key goes to the partition that Kafka's producer would choose. Rows without
    a key fill one batch for each partition in turn. Rows without a timestamp get the current time.

    If the command fails or is interrupted, it leaves no data in DIR.
    """
    try:
        with new_directory(output):
            report = make_log(
                source,
                output,
                topic=topic,
                partitions=partitions,
                input_format=input_format,
                codec=codec[0],
                level=codec[1],
                timestamp_type=timestamp_type,
                encoding=encoding,
                batch_bytes=batch_size,
                segment_bytes=segment_size,
                on_message=tell,
            )
    except ValueError as error:
        message = with_option_names(
            str(error), topic="--topic", input_format="--input-format", partitions="--partitions", encoding="--bytes"
        )
        raise click.UsageError(message) from None
    if output_format == "json":
        click.echo(encode_json(report.to_dict()))
    else:
        show_report(report)
    return 0


def show_report(report: MakeReport) -> None:
    rows = [(f"{p.topic}-{p.partition}", f"{p.records:,}", f"{p.bytes:,}") for p in report.partitions]
    show_table(("partition", "records", "bytes"), rows, right=("records", "bytes"))
    records, size = sum(p.records for p in report.partitions), sum(p.bytes for p in report.partitions)
    made = f"{counted(records, 'record')} in {counted(len(report.partitions), 'partition')}, {size:,} bytes"
    show(f"made {made} in {report.output}")
