"""Read schemas from a running schema registry, with Confluent's REST API."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from ..support.text import shown
from .models import RegisteredSchema, integer_of, member, parse_json, schema_of, text_of
from .registry import SchemaFinding

TIMEOUT_SECONDS = 30
PAGE = 1000
"""Number of versions in an answer of Confluent's registry, at most."""
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


def is_registry(path: str) -> bool:
    """Return whether a path is the URL of a running registry."""
    return path.lower().startswith(("http://", "https://"))


def read_rest(url: str) -> tuple[list[RegisteredSchema], list[SchemaFinding]]:
    """Return all versions of a running registry, and findings about versions that cannot be used."""
    client = _Client(url)
    versions, findings = [], []
    for content, deleted in client.versions():
        try:
            found = schema_of(content, text_of(content, "subject"), integer_of(content, "version"))
            versions.append(replace(found, deleted=deleted, compatibility=client.compatibility(found.subject)))
        except ValueError as error:
            findings.append(SchemaFinding(None, "invalid_record", f"a version has an unexpected form: {error}"))
    return versions, findings


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect, because the password would be sent to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Client:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._headers = {"Accept": ACCEPT}
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        self._url = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
        self._open = build_opener(_NoRedirect).open
        self._levels: dict[str, str | None] = {}

    def versions(self) -> Iterator[tuple[dict[str, Any], bool]]:
        """Yield all versions of all contexts, and for each of them whether it is soft-deleted."""
        found = list(self._pages("deleted=true"))
        if found:
            live = {_key(version) for version in self._pages("deleted=false")}
            yield from ((version, _key(version) not in live) for version in found)
        else:  # the registry has no versions, or is older than this resource
            yield from self._by_subject()

    def compatibility(self, subject: str) -> str | None:
        """Return the compatibility level that the registry applies to a subject."""
        if subject not in self._levels:
            found = self._get(f"/config/{quote(subject, safe='')}?defaultToGlobal=true", dict, {})
            self._levels[subject] = member(found, "compatibilityLevel", str)
        return self._levels[subject]

    def _pages(self, query: str) -> Iterator[dict[str, Any]]:
        seen: set[Any] = set()
        while True:
            path = f"/schemas?subjectPrefix=:*:&{query}&offset={len(seen)}&limit={PAGE}"
            answer = [v if isinstance(v, dict) else {} for v in self._get(path, list, [])]
            new = {_key(v): v for v in answer if _key(v) not in seen}
            if not new:  # also if the registry does not know the parameter "offset"
                return
            yield from new.values()
            seen.update(new)

    def _by_subject(self) -> Iterator[tuple[dict[str, Any], bool]]:
        subjects = self._get("/subjects?deleted=true", list, None)
        if subjects is None:
            raise ConnectionError(f"{self._url}: this is not the URL of a schema registry")
        for subject in subjects:
            base = f"/subjects/{quote(str(subject), safe='')}/versions"
            live = self._get(base, list, [])
            for number in self._get(f"{base}?deleted=true", list, []):
                found = self._get(f"{base}/{number}?deleted=true", dict, {})
                yield found, number not in live

    def _get(self, path: str, kind: type[Any], missing: Any) -> Any:
        """Return the JSON of an answer, which must be of a type. If there is no such resource, return `missing`."""
        try:
            with self._open(Request(self._url + path, headers=self._headers), timeout=TIMEOUT_SECONDS) as answer:
                found = parse_json(answer.read())
            if isinstance(found, kind):
                return found
            reason = f"the answer to GET {path} is {shown(found)}"
        except HTTPError as error:
            if error.code in (404, 405):
                return missing
            reason = f"the registry answers GET {path} with status {error.code}"
        except URLError as error:
            reason = str(error.reason)
        except (OSError, HTTPException) as error:
            reason = str(error) or type(error).__name__
        except ValueError:
            reason = f"the answer to GET {path} is not JSON"
        raise ConnectionError(f"{self._url}: {reason}")


def _key(version: dict[str, Any]) -> tuple[str, str]:
    return str(version.get("subject")), str(version.get("version"))
