"""Load recorded frames of old clients and brokers, and the fields that Kafka's own classes read from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from golden_archives import unpack

FOLDER = unpack() / "wire"
VERSIONS = sorted(f.name for f in FOLDER.iterdir() if f.is_dir())

# Kafka 2.8 wrote the manifests. Some field names have changed since then.
RENAMED = {
    "Fetch": {
        "partitionResponses": "partitions",
        "partition": "partitionIndex",
        "recordSetSizeInBytes": "recordsSizeInBytes",
    },
    "OffsetCommit": {"generationId": "generationIdOrMemberEpoch"},
    "AddPartitionsToTxn": {
        "transactionalId": "v3AndBelowTransactionalId",
        "producerId": "v3AndBelowProducerId",
        "producerEpoch": "v3AndBelowProducerEpoch",
        "topics": "v3AndBelowTopics",
    },
}
RENAMED_RESULTS = [
    ("results", "resultsByTopicV3AndBelow"),
    ("results", "resultsByPartition"),
    ("errorCode", "partitionErrorCode"),
]


class Golden(NamedTuple):
    name: str
    frame: bytes
    entry: dict[str, Any]


def frames(version: str) -> Iterator[Golden]:
    """Yield the frames of a broker version, in the order of its manifest."""
    folder = FOLDER / version
    for entry in json.loads((folder / "manifest.json").read_text(encoding="utf-8")):
        yield Golden(f"{version}/{entry['file']}", (folder / entry["file"]).read_bytes(), entry)


def fields_of(entry: dict[str, Any]) -> Any:
    """Return the fields of a manifest entry, with their current names."""
    api, response = entry["api"], entry["direction"] == "response"
    names = {} if api == "Fetch" and not response else RENAMED.get(api, {})

    def renamed(value: Any, depth: int) -> Any:
        if isinstance(value, list):
            return [renamed(element, depth) for element in value]
        if not isinstance(value, dict):
            return value
        if api == "AddPartitionsToTxn" and response:
            old, new = RENAMED_RESULTS[depth]
            return {new if k == old else k: renamed(v, depth + 1) for k, v in value.items()}
        return {names.get(k, k): renamed(v, depth + 1) for k, v in value.items()}

    return renamed(entry["fields"], 0)
