"""Define the method `find`, which selects records by key, value and headers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from .._backend import core
from ..log.finding import Found, Search
from ..support import arguments
from ..support.text import counted
from ..types import Buffer, RecordColumns
from .find_arguments import FindArguments, HeaderConditions, Pattern, parse_conditions, parse_limit
from .selection_arguments import SelectionArguments

if TYPE_CHECKING:
    from ..log.catalog import Source
    from ..log.finding import RowTest
    from ..registry import SchemaRegistry
    from ..values.sides import Decode

CONDITIONS = ("key", "key_regex", "value_regex", "headers", "value_json", "where", "decode", "registry", "framing")
"""Names of the arguments of `find` that describe the records to find."""


class Finding:
    """Base class of partitions and other objects that have the method `find`."""

    def _found(
        self, search: Search[core.Record], threads: int, given: SelectionArguments, *named: str
    ) -> Iterator[Found[core.Record]]:
        """Return an iterator of the selected records that meet the conditions of a search."""
        raise NotImplementedError

    def _decoded_test(
        self, where: str, decode: Decode, registry: SchemaRegistry | Source | None, framing: str
    ) -> RowTest:
        """Return a condition on the fields of decoded keys and values."""
        raise NotImplementedError

    def _made(self, source: Buffer, columns: RecordColumns, start: int, stop: int) -> list[core.Record]:
        """Return rows of decoded columns as records."""
        raise NotImplementedError

    def _tell(self, message: str) -> None:
        """Add a message to the messages of the log."""
        raise NotImplementedError

    def _first_records(self, found: Iterator[Found[core.Record]], limit: int | None) -> Iterator[list[core.Record]]:
        """Yield at most `limit` records. At the end, report how many of the tested values are not JSON."""
        not_json, left = 0, limit
        for some in found if left != 0 else ():
            not_json += some.not_json
            records = some.items[:left]
            yield records
            if left is not None:
                left -= len(records)
                if not left:
                    break
        if not_json:
            verb = "is" if not_json == 1 else "are"
            self._tell(f"{counted(not_json, 'value')} {verb} not JSON, so value_json cannot match")

    def find(
        self,
        *,
        key: str | bytes | None = None,
        key_regex: Pattern | None = None,
        value_regex: Pattern | None = None,
        headers: HeaderConditions | None = None,
        value_json: Mapping[str, Any] | None = None,
        where: str | None = None,
        decode: Decode = True,
        registry: SchemaRegistry | Source | None = None,
        framing: str = "auto",
        limit: int | None = None,
        threads: int | None = None,
        **selection: Unpack[SelectionArguments],
    ) -> Iterator[core.Record]:
        r"""Return an iterator of the records that meet all given conditions.

        Each condition is evaluated for many records at once. Therefore, `find` is much faster than
        a loop over `records`. Several threads search the partition. Several threads may share the
        iterator.

        Parameters
        ----------
        key : str or bytes, optional
            Key of the records. A str is encoded as UTF-8.
        key_regex, value_regex : str, bytes or re.Pattern of bytes, optional
            Regular expressions for bytes, which must match anywhere in the key or in the value. A
            str is encoded as UTF-8. A null key or value never matches.
        headers : str, dict or iterable, optional
            Headers that the record must have:

            - A str, or an iterable of str, contains keys of headers. The values of these headers
              are ignored.
            - A dict, or an iterable of tuples, contains keys and values of headers. The value None
              matches a null value.
        value_json : dict, optional
            Select records whose value is JSON and has these members. The dict maps paths to
            expected values, such as ``{"customer.country": "DE", "items.0.count": 2}``. A number in
            a path is an array index. A backslash in a path escapes a dot that is part of a name. A
            schema id before the JSON (a zero byte and 4 bytes) is skipped. If values are not JSON,
            their number is added to `Log.messages` at the end of the search.
        where : str, optional
            Condition on the fields of decoded keys and values, such as
            ``'value.amount > 100 and key.country = "DE"'``. The operators are ``=``, ``!=``, ``<``,
            ``<=``, ``>`` and ``>=``. Comparisons are joined with ``and``, ``or``, ``not`` and
            parentheses. A record that cannot be decoded has the value null.
        decode, registry, framing : optional
            How keys and values are decoded for `where`, as in `Partition.to_arrow`. By default,
            both are decoded.
        limit : int, optional
            Largest number of records to return. By default, there is no limit.
        threads : int, optional
            Number of threads that decompress, decode and test records, 1 or higher. By default, the
            number of CPUs.
        **selection
            Keyword arguments that select records: start, end, start_time, end_time, on_error,
            control, below_log_start, isolation and partial. `Partition.records` describes them.

        Returns
        -------
        iterator of Record
            The matching records in offset order.

        Raises
        ------
        DamagedLogError
            The selected range contains damage, and `on_error` is "fail".
        TypeError, ValueError
            An argument is unknown or wrong, or a regular expression is invalid.

        Notes
        -----
        Regular expressions are evaluated by Python's module ``re``. For some expressions, such as
        ``(a+)+b``, the time grows exponentially with the length of the key or value. Do not accept
        regular expressions from users whom you do not trust.

        Examples
        --------
        >>> found = partition.find(key="customer-10", value_regex=r'"amount": \d{3}')  # doctest: +SKIP
        """
        given: FindArguments = {
            "key": key,
            "key_regex": key_regex,
            "value_regex": value_regex,
            "headers": headers,
            "value_json": value_json,
        }
        conditions = parse_conditions(given)
        if where is not None:
            conditions = replace(conditions, test=self._decoded_test(where, decode, registry, framing))
        elif (decode, registry, framing) != (True, None, "auto"):
            raise ValueError("decode, registry and framing need where")
        search = Search[core.Record](conditions, self._made, parse_limit(limit))
        count = arguments.optional_integer("threads", threads, 1) or os.cpu_count() or 1
        found = self._found(search, count, selection, *CONDITIONS, "limit", "threads")
        return core.RecordIterator(self._first_records(found, search.limit))
