"""Check that reading schemas takes time that is linear in the number of records."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from schema_records import Pair, clearing, config, deletion, hard_deleted, schema, write_schemas

import kafkafmt as k
from kafkafmt.registry.files import save_registry

from .growth import grows_linearly, lines_of

NUMBER = itertools.count()


def subjects(n: int) -> list[Pair]:
    made = [schema(f":.c{i % 7}:s{i}", 1, i, f'"{i}"') for i in range(n)]
    return [
        *made,
        *(config(f":.c{i % 7}:s{i}", "NONE") for i in range(n)),
        *(deletion(f":.c{i % 7}:s{i}", 1) for i in range(n)),
    ]


def versions(n: int) -> list[Pair]:
    made = [schema("s", i, i, f'"{i}"') for i in range(n)]
    return [*made, deletion("s", n // 2), clearing("s"), *(hard_deleted("s", i) for i in range(n))]


def same_id(n: int) -> list[Pair]:
    return [schema(f"s{i}", 1, 1) for i in range(n)]


def chain(n: int) -> list[Pair]:
    """Return schemas of which each refers to the next one and to the first one."""
    at = [[{"name": f"s{j}", "subject": f"s{j}", "version": 1} for j in (i + 1, 0) if 0 < j < n] for i in range(n)]
    return [schema(f"s{i}", 1, i, f'"{i}"', references=at[i]) for i in range(n)]


@pytest.mark.parametrize("make", [subjects, versions, same_id, chain])
def test_schemas_grow_linearly(make: Callable[[int], list[Pair]], tmp_path: Path) -> None:
    def work(n: int) -> Counter[str]:
        data = write_schemas(tmp_path / str(next(NUMBER)), make(n))
        saved = tmp_path / str(next(NUMBER))

        def run() -> None:
            registry = k.schemas(data)
            registry.to_dict()
            for version in itertools.islice(registry, 1):
                registry.get_references(version)
            save_registry(registry, saved)
            k.schemas(saved)

        return lines_of(run)

    grows_linearly(60, work)
