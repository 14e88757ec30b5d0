"""What both cores offer: `_core` natively, `_pure` in Python. The docstrings here hold for both.

A *buffer* is any C-contiguous one: bytes, bytearray, memoryview, mmap, NumPy, Arrow. It is held while a call lasts (a bytearray
cannot be resized then), never copied, and written to by the four that number batches alone. `start` and `end` are
positions in it, `end` exclusive and None for its end; positions that are returned count from the buffer's start too, never from
`start`. A *span* is a position in the buffer and a length in bytes, -1 for null. Arrays are C-contiguous, aligned, of the types
named, and belong to the caller: nobody may write to them, or resize them, while a call lasts. Bad data gives a KafkaFormatError,
wrong arguments TypeError or ValueError (an integer beyond what its C type holds: OverflowError).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from .errors import KafkaFormatError
from .types import BatchTable, Buffer, ByteArray, HeaderSpans, IntArray, LengthArray, RecordColumns, Scan, Spans

def read_varint(buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """A zigzag varint of 32 bits, at most 5 bytes: its value and the position behind it.

    Bits beyond the 32nd are dropped, as Kafka drops them. Raises TruncatedError where the input ends inside it,
    StructureError where it is longer; their position is `start`.
    """

def read_varlong(buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """The same for 64 bits and at most 10 bytes."""

def read_unsigned_varint(buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[int, int]:
    """The same for 32 bits without zigzag: 0 to 2**32 - 1."""

def crc32c(buffer: Buffer, value: int = 0, start: int = 0, end: int | None = None) -> int:
    """CRC-32C (Castagnoli) of the bytes; `value` is that of the bytes before them (of which the low 32 bits count)."""

def crc32(buffer: Buffer, value: int = 0, start: int = 0, end: int | None = None) -> int:
    """CRC-32 (that of gzip, which messages of formats 0 and 1 carry) of the bytes; `value` is that of the bytes before them."""

def crc32c_of_rest(whole: int, prefix: int, size: int) -> int:
    """Return the CRC-32C of the last `size` bytes of some data, given the CRC-32C of all of it and that of the bytes before them.

    The formula is its own inverse: with the CRC of the last bytes in place of `whole`, the result is the CRC of all of the data.
    """

def crc32_of_rest(whole: int, prefix: int, size: int) -> int:
    """Return the CRC-32 of the last `size` bytes of some data, given the CRC-32 of all of it and that of the bytes before them.

    The formula is its own inverse: with the CRC of the last bytes in place of `whole`, the result is the CRC of all of the data.
    """

def crc32c_way(way: int | None = None) -> str:
    """How CRC-32C is computed, by name. For tests: the native core has up to three ways, and `way` (0 the slowest, to 2) chooses
    one, for the whole process; one that this processor does not offer is not taken. The pure core has one."""

def scan_batches(buffer: Buffer, table: BatchTable, start: int = 0, end: int | None = None, check_crc: bool = True) -> Scan:
    """The shallow walk: the headers of batch after batch from `start` on, into the rows of `table` (BATCH_DTYPE), from row 0.

    It stops, and Scan.position says where:
    - at the end, or at a batch that the end cuts off: no error. What is left (`end - position` bytes) is incomplete, not corrupt;
    - at a batch for which the table has no row left: no error, `count == len(table)`;
    - at a length field that no batch can have (StructureError), a magic other than 2 (UnsupportedError), or, with `check_crc`, a
      CRC that does not hold (ChecksumError). The error is returned in Scan.error, not raised: the rows before it hold. Its
      position is the batch's; `resume` is the position behind the batch, by its own length field, where that lies in the
      buffer and can be believed at all, None otherwise.
    An error is found before a missing row is (but for a CRC: a batch without a row is not checked).

    Nothing but length, magic and CRC is judged here; counts and deltas are, by `decode_records`. Without the GIL.
    """

def find_batch(buffer: Buffer, start: int = 0, end: int | None = None, check_crc: bool = True) -> int | None:
    """Return the first position at which a batch or message begins, or None.

    With `check_crc` the whole batch is before `end` and its CRC matches. Without it, only the header is checked: magic, base offset,
    length, codec, attribute bits, and (magic 2) last offset delta and count not negative, or (magic 0 and 1) key and value lengths
    that fill the message. The batch may then end after `end`. Linear in the bytes, whatever lengths the headers claim. Without the GIL.
    """

def find_batches(
    buffer: Buffer, found: IntArray, beyond: IntArray, start: int = 0, end: int | None = None, lowest_offset: int = 0
) -> tuple[int, int, int]:
    """Find every valid batch or message that begins in [start, end), even inside another one.

    Positions of batches that are whole in the buffer and whose CRC matches go into `found`. `beyond`, an array of shape (n, 2), gets the
    position of each plausible header whose batch ends after the buffer, and the CRC of its covered bytes up to the buffer's end, if
    its offset is from `lowest_offset` to `lowest_offset` + 2**31 - 1: in ordinary data, many positions look like such a header.
    Headers are checked as by `find_batch`. Return the number of rows of `found` and of `beyond` that were filled, and the
    position up to which the search went: `end`, or that of the first batch for which a row was missing. Linear in the bytes,
    whatever lengths the headers claim. Without the GIL.
    """

def scan_damaged(
    buffer: Buffer,
    table: BatchTable,
    spans: IntArray,
    start: int = 0,
    end: int | None = None,
    file_end: int | None = None,
    expected: int = 0,
    last: int | None = None,
) -> tuple[int, int, int, int, int | None, KafkaFormatError | None]:
    """Scan valid batches, and skip batches whose CRC does not match by their length fields.

    A batch whose CRC does not match is skipped if its header and the header after it have offsets from `expected` to `expected` +
    2**31 - 1, a known magic and a possible length, and if between the two neither a valid batch begins nor a plausible header with
    such an offset whose batch ends after the second. A batch that would end after `file_end` is not valid. The scan ends before

    - a batch that `end` cuts off, or any other batch that is neither valid nor skipped;
    - a wrapper message, a batch with a negative last offset delta, and a batch whose next offset does not fit into 64 bits;
    - a batch or span for which `table` or `spans` has no row.

    Parameters
    ----------
    table : array of BATCH_DTYPE
        Gets a row for each valid batch.
    spans : array of int64, shape (n, 7)
        Gets a row for each skipped batch: its position and end, the number of valid batches before it, its magic, the CRC of its
        bytes, its crc field, and 1 if a plausible header in it claims a batch that ends after the file, else 0.
    file_end : int, optional
        Position at which the file ends, counted from the buffer's start. By default the end of the buffer.
    expected : int
        The lowest offset that the first batch can have. It rises with each valid batch, unless that does not continue the one before.
    last : int, optional
        The last offset of the valid batch directly before `start`. None if damage is there.

    Returns
    -------
    tuple
        The number of valid batches, the number of skipped ones, the position of the first batch that is neither, `expected` and
        `last` for this one, and the error that `scan_batches` reports for it, or None. Without the GIL.
    """

def scan_extents(buffer: Buffer, table: BatchTable, extents: IntArray) -> tuple[int, int]:
    """Scan the batches of extents, of which each row of `extents` gives position, end, number of batches, and last offset.

    Stop before the first extent whose batches are not all valid, do not end with it, are not as many, end with another offset, or do
    not fit into `table`. Return the number of extents before it, and that of the rows of `table` that were filled. Without the GIL.
    """

def resume_after(
    buffer: Buffer, found: IntArray, position: int, origin: int, scanned_to: int, file_end: int, zero_tail: int, expected: int
) -> tuple[int, bool] | None:
    """Return where reading resumes after the damaged batch at `position`, as `log/search.py` decides it in common cases.

    Positions are the file's. The buffer holds its bytes from `origin` on. Without the GIL.

    Parameters
    ----------
    found : array of int64
        The positions of the valid batches that begin in (`position`, `scanned_to`), in order. Lower positions are ignored.
    file_end, zero_tail : int
        The end of the file, and the position at which the zeros at its end begin.
    expected : int
        The lowest offset that the damaged batch can have.

    Returns
    -------
    tuple of int and bool, or None
        The position, and whether the damaged batch's own CRC matches up to there. None if the case is not a common one, or if more of
        the file has to be searched: if the damaged batch's length field leads to a possible header or to the end of the file, if a
        batch of format 0 or 1 is involved, if a batch that was found may be inside another one, or if the bytes that decide are not
        in the buffer.
    """

def heaviest_chain(
    first: IntArray,
    last: IntArray,
    weight: IntArray,
    left_out: IntArray,
    damage: IntArray,
    start_bonus: IntArray,
    parent: IntArray,
    score: IntArray,
    reach: int,
) -> None:
    """Store, for each run of batches, the score of the heaviest chain that ends with it, and the run before it in that chain.

    A chain is a sequence of runs whose offsets rise. Its score is the sum of the runs' `weight`, the `start_bonus` of its first run,
    and for each following run: 1 if it continues without a gap, 0 if the gap has the size of the offsets left out between the two
    (`left_out` holds the number of offsets before each run, and their total) or if `damage` (a count of damaged spans before each
    run) differs, -1 otherwise. `parent` is -1 for the first run of a chain. A run is compared with the `reach` runs before it; of
    equal scores, that of the earliest counts. Without the GIL.
    """

def decode_records(
    buffer: Buffer,
    batches: BatchTable,
    columns: RecordColumns,
    first_offset: int = -9223372036854775808,
    end_offset: int | None = None,
) -> KafkaFormatError | None:
    """The deep walk: records of many batches, whose payloads lie uncompressed in `buffer`, into the columns; without the GIL.

    `batches` are rows of BATCH_DTYPE, of which base_offset, base_timestamp, max_timestamp, last_offset_delta, count, attributes
    (only the timestamp type), magic, payload_position and payload_size are used; `position` only for messages. A payload
    that does not lie in the buffer is a ValueError.

    Only records with first_offset <= offset < end_offset are given; all others are checked just the same. If `end_offset` is None,
    there is no end: an exclusive end could not include the largest offset, 2**63 - 1. With LogAppendTime
    every record has the batch's maximum timestamp. Microseconds that cannot be had are marked, and `columns.odd_times` is set.
    Control batches are decoded like any other. Columns that were not asked for are skipped, and faults that lie behind the last
    one asked for, inside a record, are not looked for.

    A record with more than `columns.max_headers` headers gives a TooLargeError, if headers are decoded.

    Rows are added behind `columns.rows`, headers behind `columns.headers`. The call returns None when all batches are done
    (`cursor[0] == len(batches)`), or when the columns are full: empty them (`columns.clear()`) and call again with the
    same buffer, table and range, and decoding goes on where `cursor` stands. An error is returned, not raised:
    - its position is that of the record at fault (of the payload, for the record count; of the batch, for its magic; of the first
      byte left over, behind the last record);
    - rows given before it hold, and all belong to batches before it: a batch is only ever begun once it fits the columns
      as a whole, or, larger than the empty columns, after all of it was found sound;
    - `cursor[0]` is the batch at fault. To go on behind it, add 1 (`cursor[1]` is then 0 already).

    The cursor: [0] the batch, [1] how many of its records were passed, [2] the position and [3] the last offset delta that go with
    [1], and mean nothing while that is 0. If the headers of a single record do not fit the empty header arrays, these
    are replaced by larger ones (`grow_headers`).

    Of `CopiedColumns` keys and values are copied behind those of the rows before, in Arrow's layout, where the others get spans; rows
    that are not given out after all leave no trace in offsets and bits. They are full, too, when a batch's bytes do not fit;
    a single record that does not fit the empty data arrays has them replaced by larger ones (`grow_data`).
    """

def decode_run(
    buffer: Buffer,
    columns: RecordColumns,
    start: int = 0,
    end: int | None = None,
    first_offset: int = -9223372036854775808,
    end_offset: int | None = None,
    check_crc: bool = True,
) -> int:
    """A short cut through `scan_batches` and `decode_records`: batches from `start` on straight into the columns; without the GIL.

    Rows are added behind those there are. Returns the position behind the last batch taken, which may be none (the pure core takes
    none ever). Taken are whole batches of format 2, uncompressed, with a right CRC and sound records, no control batches, all of whose
    offsets lie in [first_offset, end_offset). It stops before whatever is something else (among it, where copies are
    wanted, a batch close to the buffer's end), and before what by its header the columns may not hold: `columns.full` tells
    that. What it leaves, the two others read, or say what is wrong with it. The cursor is left alone.
    """

def write_offsets(buffer: Buffer, batches: BatchTable) -> None:
    """Writes `base_offset` and, in format 2, `leader_epoch` of each row into the batch at `position`, and touches nothing else.

    For a message of format 0 or 1, `base_offset` is its offset. The buffer is writable. ValueError where a batch does not lie in
    it; nothing is written then. Without the GIL.
    """

def number_batches(buffer: Buffer, batches: BatchTable, next_offset: int, leader_epoch: int | None = None) -> int:
    """Writes offsets that follow each other from `next_offset` on into the batches of a table; the one behind the last.

    A batch takes as many as its last offset delta says, and one more; a row with a count below 0, a wrapper, gets its last as its
    offset. With `leader_epoch` that is written too, in format 2. Nothing is written on ValueError: for a batch that does not lie
    in the buffer, a negative delta, or offsets beyond 64 bits. Without the GIL.
    """

def number_buffer(buffer: Buffer, next_offset: int, leader_epoch: int | None = None, check_crc: bool = True) -> int | None:
    """`number_batches` for all that a buffer holds, without a table, each batch checked and written to while it is in the cache.

    None, and nothing is changed, where a batch is not sound or is cut off, is a wrapper, has a negative count or last offset delta, or
    offsets do not fit 64 bits: a table of the batches says more. Without the GIL; other threads may see offsets that are taken back.
    """

def validate_buffer(
    buffer: Buffer,
    next_offset: int,
    leader_epoch: int,
    client: bool,
    codec: int | None,
    max_size: int | None,
    check_records: bool,
    compacted: bool,
    earliest: int,
    latest: int,
    append_time: int | None = None,
) -> tuple[int, int, int, int] | None:
    """The same for batches that a broker's rules let stay as they are: records, the next offset, maximum timestamp and its offset.

    All batches have format 2, and `codec` (None: any), CreateTime, and no more than `max_size` bytes. `client`: there is one, of
    offset 0, with a count that fits, no control batch, sequences where there is a producer id. With `check_records` none is
    compressed or empty, every record is sound and has a timestamp between `earliest` and `latest` (or all have -1), the highest
    is what the header says, and, `compacted`, no key is null; without it the offset of the maximum timestamp is -1. None, and
    nothing is changed, where this does not hold or cannot be told at once: there may be nothing wrong. Without the GIL, as above.

    With `append_time` batches get that, and LogAppendTime; their records' timestamps are not looked at then.
    """

def look_at_payload(payload: Buffer, count: int, last_offset_delta: int) -> tuple[int, int, int, bool] | None:
    """What `validate_buffer` asks of a batch's records: the lowest and highest timestamp delta, the offset delta of the first record
    that has the highest, whether a key is null. None where the payload is not as many sound records as `count` says, of offset
    deltas that rise up to `last_offset_delta`; also for no record at all. Without the GIL.
    """

def total_length(lengths: LengthArray, count: int) -> int:
    """Bytes that the first `count` spans have together, nulls counting as none."""

def gather(
    buffer: Buffer,
    positions: IntArray,
    lengths: LengthArray,
    count: int,
    offsets: LengthArray,
    data: ByteArray,
    validity: ByteArray | None,
    row: int = 0,
    filled: int = 0,
) -> tuple[int, int]:
    """Copies `count` spans together in Arrow's binary layout; returns (filled, nulls): how much of `data` is now in use, and how
    many of the spans were null.

    `offsets` (int32) gets `count + 1` entries from `row` on, `data` the bytes from `filled` on, `validity` a bit a span from
    bit `row` on (1: not null; least significant bit first), unless it is None. So several calls fill one array. What
    stands in `data` behind the end returned is undefined. ValueError for a span outside the buffer, or where `data` (at
    most 2**31 - 1 bytes) is too small; arrays are then filled in part. Without the GIL.
    """

def murmur2(buffer: Buffer) -> int:
    """The hash of a key as Kafka's producers compute it, an int32 as in Java."""

def murmur2_spans(buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, hashes: LengthArray) -> None:
    """The hashes of `count` spans into `hashes`; 0 for a null. ValueError for a span outside the buffer. Without the GIL."""

class Record:
    """One record of a partition. Fields are read-only (in the pure core by convention); records compare and hash by all of them.

    timestamp: milliseconds since 1970 UTC. timestamp_type: 0 CreateTime, 1 LogAppendTime, -1 none. key, value: bytes, a
    memoryview where views were asked for, or None. headers: (key, value or None) in their order.
    """

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def timestamp_type(self) -> int: ...
    @property
    def key(self) -> bytes | memoryview | None: ...
    @property
    def value(self) -> bytes | memoryview | None: ...
    @property
    def headers(self) -> tuple[tuple[str, bytes | memoryview | None], ...]: ...
    def __init__(
        self,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: bytes | memoryview | None = None,
        value: bytes | memoryview | None = None,
        headers: tuple[tuple[str, bytes | memoryview | None], ...] = (),
    ) -> None: ...
    def __reduce__(self) -> tuple[type[Record], tuple[Any, ...]]: ...

def message_offsets(buffer: Buffer, batches: BatchTable, first: IntArray, last: IntArray, count: IntArray) -> None:
    """Store the first and the highest offset, and the number, of the messages of each row of a table of formats 0 and 1.

    The payloads are in `buffer`, uncompressed. Offsets of format 1 are absolute, computed as `decode_records` computes them. If
    the messages of a row are corrupted, its count is -1 and both of its offsets are the row's own. If the messages' offsets do
    not increase, the first is 2**63 - 1 and the last -2**63. Without the GIL.
    """

def make_records(buffer: Buffer, columns: RecordColumns, start: int = 0, stop: int | None = None, views: bool = False) -> list[Record]:
    """Rows `start` to `stop` (None: `columns.rows`) of decoded columns as Record objects.

    A field whose column was not asked for is -1, None or (). Header keys are decoded as Java does it, the rest is bytes; with
    `views`, keys and values and header values are read-only memoryviews instead, which keep the buffer alive (and a
    bytearray from being resized). ValueError for rows that are not there, or spans that do not lie in the buffer.
    """

class RecordIterator:
    """Yield the records of list after list, as `itertools.chain.from_iterable` does, for several threads at once.

    Each record goes to one thread. A thread that needs the next list waits while another one gets it. (CPython's chain drops a
    generator that is running in another thread, and crashes.) An error ends the iteration.
    """

    def __init__(self, lists: Iterable[list[Record]]) -> None: ...
    def __iter__(self) -> RecordIterator: ...
    def __next__(self) -> Record: ...

def make_values(
    buffer: Buffer, positions: IntArray, lengths: LengthArray, count: int, views: bool = False
) -> list[bytes | memoryview | None]:
    """The first `count` spans as bytes (or read-only memoryviews), None for nulls."""

class RecordBuffer:
    """Batches under construction: one under way, in a growing buffer, behind those already closed.

    attributes: the batch's bits (of formats 0 and 1: the wrapper's, or each message's), believed as they are; append_time and
    delete_horizon go with theirs. max_size: what the batch under way may have, header and all, before compression; its first record is
    taken whatever its size. base_offset: of the first batch; without it, as in every later one, its first record's. Formats 0 and
    1 without a codec: the batch is so many messages, and closing it only begins the next.
    """

    base_offset: int
    next_offset: int
    """What a record without an offset gets."""
    count: int
    """Records of the batch under way."""
    max_timestamp: int
    """Of its records, -1 before the first."""
    producer_id: int
    base_sequence: int

    def __init__(
        self,
        magic: int = 2,
        attributes: int = 0,
        max_size: int | None = None,
        base_offset: int | None = None,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        append_time: int = -1,
        delete_horizon: int = -1,
    ) -> None: ...
    @property
    def size(self) -> int:
        """Bytes of the batch under way, uncompressed, header and all."""
    @property
    def closed_size(self) -> int:
        """Bytes of the batches that are closed."""
    def append(
        self,
        key: Buffer | None,
        value: Buffer | None,
        timestamp: int = -1,
        headers: Iterable[tuple[str | Buffer, Buffer | None]] | dict[Any, Buffer | None] | None = (),
        offset: int | None = None,
    ) -> bool:
        """Add a record; False where it does not fit the batch any more. headers: pairs, or a dict.

        InvalidError, with `rule`, for an offset that is not above the one before (or 2**31 beyond the base offset), a timestamp below
        -1, headers below format 2, timestamps in format 0; TooLargeError for what no batch can hold. Nothing is added then. The error's
        position is the size of the batch under way.
        """
    def has_room_for(
        self,
        key: Buffer | None,
        value: Buffer | None,
        timestamp: int = -1,
        headers: Iterable[tuple[str | Buffer, Buffer | None]] | dict[Any, Buffer | None] | None = (),
        offset: int | None = None,
    ) -> bool:
        """What `append` would return, or raise, without adding the record."""
    def extend(self, records: Sequence[Any], start: int = 0) -> int:
        """Add records of a list or tuple from `start` on, as long as they fit; the position of the first one not taken.

        A record is a tuple of `append`'s arguments, in their order, or a Record, whose timestamp type is not used. A Record keeps its
        offset, unless that is -1. ValueError if some records are Records that keep their offsets and others have none. An error
        leaves the records before it added.
        """
    def append_columns(
        self,
        keys: Spans | None,
        values: Spans | None,
        timestamps: IntArray | None,
        offsets: IntArray | None,
        headers: HeaderSpans | None,
        start: int,
        stop: int,
        many: bool = False,
    ) -> int:
        """Add rows `start` to `stop` of columns, as long as they fit; the first one not taken. None: all null, -1, or the next offset.

        With `many` (not with a codec), a batch that is full is closed and the next one begun, so that all are taken. Without the GIL.
        ValueError for spans that do not lie in their buffers; rows before the one at fault are added.
        """
    def records(self) -> bytes:
        """The records of the batch under way, as they are compressed: with no header before them."""
    def close(self, compressed: Buffer | None = None, last_offset: int | None = None, count: int | None = None) -> int:
        """End the batch under way and begin the next; its size, 0 if there was no record (then nothing is done).

        `compressed` takes the records' place, for attributes that name a codec and only then. `last_offset` is the batch's where
        that is above its last record's. Base offset and base sequence go on behind it. `count` is how many records were
        compressed: RuntimeError if another thread has appended some since.
        """
    def take_closed(self) -> bytes:
        """The bytes of the closed batches, which are then forgotten; the one under way stays."""
    def take_batches(self) -> list[bytes]:
        """The same, batch by batch."""

class Layout:
    """One structure of the wire protocol in one version: how its fields lie on the wire, and in which slots of a message type.

    fields: in their order on the wire, tuples (name, kind, array, nullable, compact, layout, default): the slot's name, a number
    of WIRE_TYPES, whether it is an array of these, whether it may be null (an array's elements never are), whether lengths are
    varints, the Layout of a structure (else None), the default. tagged: (tag, field) each. absent: slots that this version
    does not have, as (name, default, ignorable). flexible: tagged fields follow the others. A default that is a type is
    called for each message. Record data cannot be tagged. Every slot of `message_type` has to be named, but for `unknown_tagged_fields`.
    """

    def __init__(
        self,
        message_type: type,
        version: int,
        fields: Sequence[tuple[Any, ...]],
        tagged: Sequence[tuple[int, tuple[Any, ...]]] = (),
        absent: Sequence[tuple[str, Any, bool]] = (),
        flexible: bool = False,
    ) -> None: ...
    def read(self, buffer: Buffer, start: int = 0, end: int | None = None) -> tuple[Any, int]:
        """A message that begins at `start`, and the position behind it.

        Its `__init__` is not called. Absent fields have their defaults; tagged fields that are not known are kept in
        `unknown_tagged_fields`, a tuple of (tag, bytes). Text that is not UTF-8 is decoded as Java does it. Record data is a
        memoryview of the buffer, all else a copy. TruncatedError where a field would run past the end, StructureError for a
        null that is not allowed, a string of more than MAX_STRING bytes, tags that do not rise; TooLargeError for more than
        MAX_OBJECTS arrays, elements other than numbers, and unknown tagged fields. The error names the field.
        """

def write_messages(layouts: Sequence[Layout], messages: Sequence[Any], framed: bool = False) -> list[Any]:
    """Messages, each by its layout, one behind the other (a header and a body), as a list of buffers.

    Record data (a buffer, or a list of them) stands in the list as it was given, as memoryviews; all else is bytes. With
    `framed`, four bytes before it all give the size of what follows. Tagged fields are written where they differ from
    their defaults. ValueError for what the version cannot hold: None, a number or text out of range, an absent field that is
    not ignorable and not at its default; TypeError for values of another type.
    """
