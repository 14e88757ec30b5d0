"""Read schemas from a running schema registry, with Confluent's REST API."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from ..errors import KafkaFormatError
from ..support.paths import without_secrets
from .models import RegisteredSchema
from .registry import SchemaFinding
from .topic import schema_of

TIMEOUT_SECONDS = 30
ALL_CONTEXTS = "subjectPrefix=:*:&deleted=true"


class RegistryUnreachableError(OSError):
    """A schema registry does not answer, or its answer is not one of the REST API."""


def read_rest(url: str) -> tuple[list[RegisteredSchema], list[SchemaFinding]]:
    """Return all versions of a running registry, and findings about answers that could not be used."""
    client = _Client(url)
    findings: list[SchemaFinding] = []
    versions = []
    for content in client.all_versions():
        try:
            found = schema_of(content, content["subject"], content["version"])
            versions.append(replace(found, compatibility=client.compatibility(found.subject)))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            findings.append(SchemaFinding(None, "invalid_record", f"a schema has an unexpected form: {error}"))
    return versions, findings


class _Client:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        host = parts.netloc.rpartition("@")[2]
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        self._url = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._levels: dict[str, str | None] = {}

    def all_versions(self) -> Iterator[dict[str, Any]]:
        """Yield all versions of all contexts, with the soft-deleted ones."""
        found = self.get(f"/schemas?{ALL_CONTEXTS}", missing=None)
        live = self.get("/schemas?subjectPrefix=:*:", missing=None)
        if found is None or live is None:  # an older registry
            yield from self._by_subject()
            return
        kept = {(v["subject"], v["version"]) for v in live}
        for version in found:
            yield {"deleted": (version["subject"], version["version"]) not in kept, **version}

    def compatibility(self, subject: str) -> str | None:
        """Return the compatibility level of a subject, or else of the registry."""
        for path in (f"/config/{quote(subject, safe='')}", "/config"):
            if path not in self._levels:
                found = self.get(path, missing=None)
                self._levels[path] = found.get("compatibilityLevel") if isinstance(found, dict) else None
            if self._levels[path] is not None:
                return self._levels[path]
        return None

    def get(self, path: str, missing: Any) -> Any:
        """Return the JSON of an answer. If there is no such resource, return `missing`."""
        request = Request(self._url + path, headers=self._headers)
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
                return json.load(answer)
        except HTTPError as error:
            if error.code in (404, 405):
                return missing
            reason = f"the registry answers with status {error.code}"
        except (URLError, OSError) as error:
            reason = str(getattr(error, "reason", error))
        except (ValueError, KafkaFormatError):
            reason = "the answer is not JSON"
        raise RegistryUnreachableError(f"{without_secrets(self._url)}: {reason}")

    def _by_subject(self) -> Iterator[dict[str, Any]]:
        live = set(self.get("/subjects", missing=()))
        for subject in self.get("/subjects?deleted=true", missing=()):
            base = f"/subjects/{quote(subject, safe='')}/versions"
            kept = set(self.get(base, missing=())) if subject in live else set()
            for number in self.get(f"{base}?deleted=true", missing=()):
                found = self.get(f"{base}/{number}?deleted=true", missing=None)
                if found is not None:
                    yield {**found, "deleted": number not in kept}
