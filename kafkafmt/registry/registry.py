"""Define `SchemaRegistry`, which finds schemas by subject, version, id and GUID."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..log.catalog import like
from ..support.text import shown
from .models import (
    DEFAULT_CONTEXT,
    RegisteredSchema,
    SchemaNotFoundError,
    qualified,
    split_subject,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SchemaFinding:
    """Something in a source of schemas that could not be used."""

    offset: int | None  # of the record in the topic; None if the source is not a topic
    error: str
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as in the output of ``kafkafmt schemas --format json``."""
        return {"offset": self.offset, "error": self.error, "message": self.message}


class SchemaRegistry:
    """The schemas of a registry, as returned by `schemas`.

    The names of the methods are those of ``SchemaRegistryClient`` in Confluent's Python client.
    Soft-deleted versions are found by id and GUID, because existing values may use them. Other
    methods ignore them by default.

    Attributes
    ----------
    findings : list of SchemaFinding
        Records or files that could not be used.
    context : str or None
        Context to which unqualified subjects and ids belong first. None means the default context.
    """

    def __init__(
        self, versions: Iterable[RegisteredSchema], findings: Iterable[SchemaFinding] = (), context: str | None = None
    ) -> None:
        self.findings = list(findings)
        self.context = None if context is None else "." + context.strip(":.")
        self._subjects: dict[str, dict[int, RegisteredSchema]] = {}
        self._by_id: dict[tuple[str, int], list[RegisteredSchema]] = {}
        self._by_guid: dict[str, RegisteredSchema] = {}
        for version in sorted(versions, key=lambda v: (v.subject, v.version)):
            self._subjects.setdefault(version.subject, {})[version.version] = version
            self._by_id.setdefault((version.context, version.schema_id), []).append(version)
            self._by_guid.setdefault(version.guid, version)

    def __len__(self) -> int:
        """Return the number of versions, with the soft-deleted ones."""
        return sum(map(len, self._subjects.values()))

    def __repr__(self) -> str:
        return f"<kafkafmt.SchemaRegistry: {len(self._subjects)} subjects, {len(self)} versions>"

    def subjects(self, deleted: bool = False) -> list[str]:
        """Return the names of all subjects, ordered by name.

        Parameters
        ----------
        deleted : bool, default False
            Include subjects whose versions are all soft-deleted.

        Returns
        -------
        list of str
            Subjects of other contexts than the default one are qualified: ``:.CONTEXT:NAME``.
        """
        return [
            subject
            for subject, versions in sorted(self._subjects.items())
            if (deleted or any(not v.deleted for v in versions.values()))
            and (self.context is None or split_subject(subject)[0] == self.context)
        ]

    def get_versions(self, subject: str, deleted: bool = False) -> list[int]:
        """Return the version numbers of a subject, in ascending order.

        Parameters
        ----------
        subject : str
            Name of the subject, qualified (``:.CONTEXT:NAME``) or in the context of the registry.
        deleted : bool, default False
            Include soft-deleted versions.

        Raises
        ------
        SchemaNotFoundError
            There is no such subject.
        """
        return [number for number, v in sorted(self._versions(subject).items()) if deleted or not v.deleted]

    def get_version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject, even if it is soft-deleted.

        Raises
        ------
        SchemaNotFoundError
            There is no such subject or version.
        """
        versions = self._versions(subject)
        if version not in versions:
            existing = ", ".join(map(str, sorted(versions)))
            raise SchemaNotFoundError(f"subject {subject} has no version {version}; it has {existing}")
        return versions[version]

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        """Return the highest version of a subject that is not deleted.

        Raises
        ------
        SchemaNotFoundError
            There is no such subject, or all its versions are deleted.
        """
        live = self.get_versions(subject)
        if not live:
            raise SchemaNotFoundError(f"all versions of subject {subject} are deleted")
        return self.get_version(subject, live[-1])

    def get_schema(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        """Return a schema by its id.

        An id is unique only in its context. As in the registry, a version of `subject` is preferred:
        first in the context of the registry, then in any other context. Otherwise, the id is looked
        up in the context, and then in the other contexts.

        Parameters
        ----------
        schema_id : int
            Id of the schema, as it is stored in values.
        subject : str, optional
            Subject whose versions are preferred, for example ``orders-value``.

        Raises
        ------
        SchemaNotFoundError
            There is no schema with this id, or two contexts have different schemas with this id and
            `subject` does not decide.
        """
        contexts = sorted({c for c, _ in self._by_id}, key=lambda c: (c != (self.context or DEFAULT_CONTEXT), c))
        home = None
        if subject is not None:
            context, name = split_subject(subject)
            if context != DEFAULT_CONTEXT:
                contexts = [context, *(c for c in contexts if c != context)]
            for context in contexts:
                for found in self._by_id.get((context, schema_id), ()):
                    if found.subject == qualified(context, name):
                        return found
            # The topic may belong to a context that has the schema under another subject.
            home = next((c for c in contexts if qualified(c, name) in self._subjects), None)
        if home is not None:
            contexts = [home, *(c for c in contexts if c != home)]
        for context in contexts[:1]:
            if found_here := self._by_id.get((context, schema_id)):
                return self._only(found_here, schema_id)
        elsewhere = [v for context in contexts[1:] for v in self._by_id.get((context, schema_id), ())]
        if not elsewhere:
            raise SchemaNotFoundError(f"there is no schema with id {schema_id}")
        return self._only(elsewhere, schema_id)

    def get_by_guid(self, guid: str) -> RegisteredSchema:
        """Return a schema by its GUID, for example ``b34f3f5e-…``.

        Raises
        ------
        SchemaNotFoundError
            There is no schema with this GUID.
        """
        if guid.lower() not in self._by_guid:
            raise SchemaNotFoundError(f"there is no schema with GUID {guid}")
        return self._by_guid[guid.lower()]

    def to_dict(self, deleted: bool = True) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt schemas --format json`` prints."""
        subjects = []
        for subject in self.subjects(deleted):
            versions = [self.get_version(subject, n) for n in self.get_versions(subject, deleted)]
            subjects.append(
                {
                    "subject": subject,
                    "context": split_subject(subject)[0],
                    "compatibility": versions[0].compatibility,
                    "versions": [_version_dict(v) for v in versions],
                }
            )
        return {"subjects": subjects, "findings": [f.to_dict() for f in self.findings]}

    def to_arrow(self) -> pa.Table:
        """Return all versions as an Arrow table, with one row per version.

        Returns
        -------
        pyarrow.Table
            Columns: subject, context, version, schema_id, guid, schema_type, schema, deleted,
            compatibility and error.
        """
        import pyarrow as pa

        versions = [self.get_version(s, n) for s in self.subjects(True) for n in self.get_versions(s, True)]
        names = "subject context version schema_id guid schema_type schema deleted compatibility error".split()
        types = {"version": pa.int32(), "schema_id": pa.int32(), "deleted": pa.bool_()}
        schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
        return pa.table({name: [getattr(v, name) for v in versions] for name in names}, schema)

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt schemas``: 1 if there is a finding, else 0."""
        return 1 if self.findings else 0

    def _versions(self, subject: str) -> dict[int, RegisteredSchema]:
        name = subject
        if self.context is not None and not subject.startswith(":."):
            name = qualified(self.context, subject)
        if name not in self._subjects:
            raise SchemaNotFoundError(f"there is no subject {shown(name)}: {like('subject', name, self._subjects)}")
        return self._subjects[name]

    def _only(self, found: list[RegisteredSchema], schema_id: int) -> RegisteredSchema:
        """Return the schema of several versions with the same id. SchemaNotFoundError: they have different texts."""
        if any(v.guid != found[0].guid for v in found):
            places = ", ".join(f"{v.subject} version {v.version}" for v in found)
            raise SchemaNotFoundError(f"id {schema_id} stands for different schemas: {places}")
        return found[0]


def _version_dict(version: RegisteredSchema) -> dict[str, Any]:
    return {
        "version": version.version,
        "id": version.schema_id,
        "guid": version.guid,
        "type": version.schema_type,
        "deleted": version.deleted,
        "references": [{"name": r.name, "subject": r.subject, "version": r.version} for r in version.references],
        "error": version.error,
    }
