"""Represent one input of a fuzz target, which can be saved to a small file."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOUND = Path(__file__).with_name("found")
SEEDS = Path(__file__).with_name("seeds")


@dataclass
class Case:
    """Parameters of an input, which are JSON values, and its byte strings by name."""

    params: dict[str, Any] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        """Return the only byte string of an input."""
        return self.blobs["data"]

    @property
    def size(self) -> int:
        """Return the total size of all byte strings."""
        return sum(map(len, self.blobs.values()))


def of_bytes(data: bytes, **params: Any) -> Case:
    """Return an input that consists of one byte string."""
    return Case(params, {"data": bytes(data)})


def save(case: Case, path: Path, target: str, note: str) -> None:
    """Write an input to a file. `note` describes the failure and how the input was generated."""
    blobs = {name: base64.b64encode(zlib.compress(data, 9)).decode() for name, data in case.blobs.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"target": target, "note": note, "params": case.params, "blobs": blobs}, indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")


def load(path: Path) -> tuple[str, Case]:
    """Return the name of the target and the input in a saved file."""
    saved = json.loads(path.read_text(encoding="utf-8"))
    blobs = {name: zlib.decompress(base64.b64decode(text)) for name, text in saved["blobs"].items()}
    return saved["target"], Case(saved["params"], blobs)


def saved_cases() -> list[Path]:
    """Return all saved inputs: those that failed, and those that cover rare cases."""
    return sorted([*FOUND.glob("*.json"), *SEEDS.glob("*.json")])
