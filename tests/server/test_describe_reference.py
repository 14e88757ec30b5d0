"""Check that the reference page lists the APIs that the server answers, with their versions."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from handler_calls import INTERNAL

import kafkafmt
from kafkafmt.protocol import ApiVersionsRequest
from kafkafmt.protocol.apis import api
from kafkafmt.server.handlers import HandlerSet

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "serve-apis.md"


def listed_on_page() -> dict[str, tuple[int, int]]:
    rows = re.findall(r"^\| `(\w+)` \| (\d+)(?:–(\d+))? \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == len({name for name, _, _ in rows})
    return {name: (int(low), int(high or low)) for name, low, high in rows}


def answered(users: Path) -> dict[str, tuple[int, int]]:
    async def main() -> HandlerSet:
        async with kafkafmt.serve(INTERNAL, users=users) as server:
            assert server._shared is not None
            return server._shared.handlers

    names = {}
    for key, low, high in asyncio.run(main()).versions():
        known = api(key)
        assert known is not None
        names[known.name] = low, high
    return names


def test_reference_lists_the_answered_apis_and_versions(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("alice:{PLAIN}secret\n")
    found = answered(users)
    assert listed_on_page() == found
    assert ApiVersionsRequest.API.name in found
