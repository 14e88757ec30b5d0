"""Short ways to drive a core in tests: bytes in, plain Python values out."""

import numpy as np

from kafkafmt.types import BATCH_DTYPE, COLUMNS, CopiedColumns, RecordColumns

MIN, MAX = -(2**63), 2**63 - 1


def scan(core, data, rows=64, start=0, end=None, check_crc=True):
    """The rows that a shallow walk fills, and what it returned."""
    table = np.zeros(rows, BATCH_DTYPE)
    result = core.scan_batches(data, table, start, end, check_crc)
    return table[: result.count], result


def rows_of(columns):
    """Every row of the columns as a tuple: offset, timestamp, type, key span, value span, header spans; None where not asked for."""
    n = columns.rows

    def column(*arrays):
        if arrays[0] is None:
            return [None] * n
        parts = [array[:n].tolist() for array in arrays]
        return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))

    headers = column(None)
    if columns.header_count is not None:
        spans = [
            getattr(columns, f"header_{part}")
            for part in ("key_position", "key_length", "value_position", "value_length")
        ]
        pairs = list(zip(*(array[: columns.headers].tolist() for array in spans), strict=True))
        places = zip(columns.header_start[:n].tolist(), columns.header_count[:n].tolist(), strict=True)
        headers = [pairs[a : a + count] for a, count in places]
    return list(
        zip(
            column(columns.offset),
            column(columns.timestamp),
            column(columns.timestamp_type),
            copies_of(columns, "key") or column(columns.key_position, columns.key_length),
            copies_of(columns, "value") or column(columns.value_position, columns.value_length),
            headers,
            strict=True,
        )
    )


def copies_of(columns, name):
    """The keys or values of CopiedColumns, a None for a null; and that the bits behind them are ready for others."""
    offsets, data, validity = (getattr(columns, f"{name}_{part}") for part in ("offsets", "data", "validity"))
    if offsets is None:
        return None
    bits = np.unpackbits(validity, bitorder="little")
    assert bits[columns.rows :].all()
    ends, raw = offsets[: columns.rows + 1].tolist(), data.tobytes()
    assert ends[0] == 0
    return [raw[a:b] if valid else None for a, b, valid in zip(ends, ends[1:], bits[: columns.rows], strict=False)]


def decode_steps(core, data, table, names=COLUMNS, capacity=64, header_capacity=0, first=MIN, end=None, room=None):
    """Call after call of decode_records: what each one gave, up to the end or the first error. room: of copied keys and values."""
    columns = (
        RecordColumns(capacity, names, header_capacity)
        if room is None
        else CopiedColumns(capacity, names, header_capacity, room)
    )
    while True:
        error = core.decode_records(data, table, columns, first, end)
        batch, record, position, delta = columns.cursor.tolist()
        yield rows_of(columns), error, (batch, record, *((position, delta) if record else ()))
        if error is not None or batch >= len(table):
            return
        assert columns.rows, "no progress"
        columns.clear()


def decode(core, data, table=None, **options):
    """All rows, and the error or None."""
    if table is None:
        table, _ = scan(core, data)
    rows, error = [], None
    for part, failure, _ in decode_steps(core, data, table, **options):
        rows += part
        error = failure
    return rows, error


def records(core, data, table=None, capacity=64, names=COLUMNS, **options):
    """All records as tuples of their fields; an error is raised."""
    if table is None:
        table, _ = scan(core, data)
    columns, out = RecordColumns(capacity, names), []
    while columns.cursor[0] < len(table):
        error = core.decode_records(data, table, columns, **options)
        if error is not None:
            raise error
        out += [fields(r) for r in core.make_records(data, columns)]
        columns.clear()
    return out


def fields(record):
    return record.offset, record.timestamp, record.timestamp_type, record.key, record.value, record.headers


def what(error):
    """All of an error that the cores agree on."""
    return error and (type(error).__name__, error.position, error.base_offset, error.resume, str(error))
