"""Define `SchemaRegistry`, which finds schemas by subject, version, id and GUID."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..log.catalog import like
from ..support.text import shortened, shown
from .models import (
    DEFAULT_CONTEXT,
    INVALID_SCHEMA,
    RegisteredSchema,
    SchemaNotFoundError,
    SchemaReference,
    qualified,
    split_subject,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class SchemaFinding:
    """Something in a source of schemas that cannot be used, or that contradicts something else."""

    offset: int | None  # of the record in the topic; None if the finding does not concern a single record
    error: str
    message: str

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as in the output of ``kafkafmt schemas --format json``."""
        return asdict(self)


class SchemaRegistry:
    """The schemas of a registry, as returned by `schemas`. Iteration yields all versions.

    The names of the methods are those of ``SchemaRegistryClient`` in Confluent's Python client.
    Soft-deleted versions are found by id and GUID, because existing values may use them. Methods that
    list something omit them by default.

    Attributes
    ----------
    findings : list of SchemaFinding
        Records, files and schemas that cannot be used, or that contradict each other.
    context : str or None
        Context to which unqualified subjects, and ids, belong. None means the default context, and for
        ids then the other contexts.
    """

    context: str | None
    findings: list[SchemaFinding]

    def __init__(
        self, versions: Iterable[RegisteredSchema], findings: Iterable[SchemaFinding] = (), context: str | None = None
    ) -> None:
        self.context = None if context is None else "." + context.strip(":.")
        self._subjects: dict[str, dict[int, RegisteredSchema]] = {}
        self._by_id: dict[tuple[str, int], list[RegisteredSchema]] = {}
        self._by_guid: dict[str, list[RegisteredSchema]] = {}
        for version in sorted(versions, key=lambda v: (v.context, v.subject, v.version)):
            self._subjects.setdefault(version.subject, {})[version.version] = version
            if version.schema_id is not None:
                self._by_id.setdefault((version.context, version.schema_id), []).append(version)
            if version.guid is not None:
                self._by_guid.setdefault(version.guid, []).append(version)
        self._contexts = sorted({version.context for version in self} - {DEFAULT_CONTEXT})
        self.findings = [*findings, *self._contradictions()]

    def __iter__(self) -> Iterator[RegisteredSchema]:
        """Yield all versions of all contexts, with the soft-deleted ones."""
        for versions in self._subjects.values():
            yield from versions.values()

    def __len__(self) -> int:
        """Return the number of versions, with the soft-deleted ones."""
        return sum(map(len, self._subjects.values()))

    def __repr__(self) -> str:
        return f"<kafkafmt.SchemaRegistry: {len(self._subjects)} subjects, {len(self)} versions>"

    def subjects(self, deleted: bool = False) -> list[str]:
        """Return the names of all subjects, ordered by context and name.

        Parameters
        ----------
        deleted : bool, default False
            Include subjects whose versions are all soft-deleted.

        Returns
        -------
        list of str
            Subjects of other contexts than the default one are qualified: ``:.CONTEXT:NAME``. If the
            registry was read with a context, only its subjects are returned.
        """
        return [
            subject
            for subject, versions in self._subjects.items()
            if (deleted or any(not v.deleted for v in versions.values()))
            and self.context in (None, split_subject(subject)[0])
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
        return [number for number, v in self._versions(subject).items() if deleted or not v.deleted]

    def get_version(self, subject: str, version: int) -> RegisteredSchema:
        """Return a version of a subject, even if it is soft-deleted.

        Raises
        ------
        SchemaNotFoundError
            There is no such subject or version.
        """
        versions = self._versions(subject)
        if version not in versions:
            existing = shortened(", ".join(map(str, versions)))
            raise SchemaNotFoundError(f"subject {shown(subject)} has no version {version}; it has {existing}")
        return versions[version]

    def get_latest_version(self, subject: str) -> RegisteredSchema:
        """Return the highest version of a subject that is not deleted.

        Raises
        ------
        SchemaNotFoundError
            There is no such subject, or all its versions are soft-deleted.
        """
        live = self.get_versions(subject)
        if not live:
            raise SchemaNotFoundError(f"all versions of subject {shown(subject)} are soft-deleted")
        return self.get_version(subject, live[-1])

    def get_schema(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        """Return a schema by its id.

        An id is unique only in its context. As in the registry, a version of `subject` with this id is
        preferred, first in the default context, then in the other contexts. Otherwise, any version in
        the default context is returned. Unlike the registry, the method then looks for the id in the
        other contexts. If the registry was read with a context, or `subject` is qualified, only this
        context counts.

        Parameters
        ----------
        schema_id : int
            Id of the schema, as it is stored in values.
        subject : str, optional
            Subject whose versions are preferred, for example ``orders-value``.

        Raises
        ------
        SchemaNotFoundError
            There is no schema with this id, or the id is ambiguous: different schemas have it.
        """
        context, name = split_subject(self._qualified(subject or ""))
        anywhere = context == DEFAULT_CONTEXT and self.context is None
        contexts = [context, *(self._contexts if anywhere else ())]
        found = [self._by_id.get((c, schema_id), []) for c in contexts]
        of_subject = [[v for v in versions if v.subject == qualified(v.context, name)] for versions in found]
        elsewhere = [version for versions in found[1:] for version in versions]
        for versions in (*(of_subject if name else ()), found[0], elsewhere):
            if versions:
                return _same_schema(versions, f"id {schema_id}")
        where = "" if anywhere else f" in context {context}"
        raise SchemaNotFoundError(f"there is no schema with id {shown(schema_id)}{where}")

    def get_by_guid(self, guid: str) -> RegisteredSchema:
        """Return a schema by its GUID, for example ``b34f3f5e-…``.

        Raises
        ------
        SchemaNotFoundError
            There is no schema with this GUID, or schemas of different types have it.
        """
        found = self._by_guid.get(guid.lower())
        if found is None:
            raise SchemaNotFoundError(f"there is no schema with GUID {shown(guid)}")
        return _same_schema(found, f"GUID {guid}")

    def get_references(self, schema: RegisteredSchema) -> dict[str, RegisteredSchema]:
        """Return the schemas that a schema refers to, directly or through others, by the names of the references.

        Each schema comes after those that it refers to.

        Raises
        ------
        SchemaNotFoundError
            A referenced version does not exist, or a schema refers to itself.
        """
        found: dict[str, RegisteredSchema] = {}
        pending = [("", schema, iter(schema.references))]
        above = {(schema.subject, schema.version)}
        while pending:
            name, parent, left = pending[-1]
            reference = next(left, None)
            if reference is None:
                pending.pop()
                above.discard((parent.subject, parent.version))
                found[name] = parent
            elif reference.name not in found:
                child = self._referenced(parent, reference)
                if (child.subject, child.version) in above:
                    raise SchemaNotFoundError(f"{_label(child)} refers to itself")
                above.add((child.subject, child.version))
                pending.append((reference.name, child, iter(child.references)))
        del found[""]
        return found

    def to_dict(self, deleted: bool = True) -> dict[str, Any]:
        """Return the JSON object that ``kafkafmt schemas --format json`` prints.

        Parameters
        ----------
        deleted : bool, default True
            Include soft-deleted versions.
        """
        subjects = []
        for subject in self.subjects(deleted):
            versions = [v for v in self._subjects[subject].values() if deleted or not v.deleted]
            head = {
                "subject": subject,
                "context": versions[0].context,
                "compatibility": versions[0].compatibility,
            }
            subjects.append({**head, "versions": [v.to_dict() for v in versions]})
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

        names = "subject context version schema_id guid schema_type schema deleted compatibility error".split()
        types = {"version": pa.int32(), "schema_id": pa.int32(), "deleted": pa.bool_()}
        schema = pa.schema([(name, types.get(name, pa.string())) for name in names])
        return pa.table({name: [getattr(v, name) for v in self] for name in names}, schema)

    @property
    def exit_code(self) -> int:
        """Exit code of ``kafkafmt schemas``: 1 if there is a finding, else 0."""
        return 1 if self.findings else 0

    def _qualified(self, subject: str) -> str:
        context, name = split_subject(subject)
        return qualified(self.context or context if context == DEFAULT_CONTEXT else context, name)

    def _versions(self, subject: str) -> dict[int, RegisteredSchema]:
        name = self._qualified(subject)
        if name not in self._subjects:
            raise SchemaNotFoundError(f"there is no subject {shown(name)}: {like('subject', name, self._subjects)}")
        return self._subjects[name]

    def _referenced(self, schema: RegisteredSchema, reference: SchemaReference) -> RegisteredSchema:
        """Return the version that a reference of a schema names. SchemaNotFoundError: it does not exist."""
        context, name = split_subject(reference.subject)
        contexts = [schema.context if context == DEFAULT_CONTEXT else context]
        if contexts == [DEFAULT_CONTEXT]:
            contexts += self._contexts
        for place in contexts:
            found = self._subjects.get(qualified(place, name), {}).get(reference.version)
            if found is not None:
                return found
        wanted = f"{reference.subject}/{reference.version}"
        raise SchemaNotFoundError(f"{_label(schema)} refers to {wanted}, which does not exist")

    def _contradictions(self) -> Iterator[SchemaFinding]:
        """Yield findings about schemas that cannot be used. The cost is linear in the number of references."""
        for version in self:
            if version.error == INVALID_SCHEMA:
                message = f"{_label(version)}: the text is not a schema of type {version.schema_type}"
                yield SchemaFinding(None, INVALID_SCHEMA, message)
            for reference in version.references:
                try:
                    self._referenced(version, reference)
                except SchemaNotFoundError as error:
                    yield SchemaFinding(None, "missing_reference", str(error))
        for (context, schema_id), versions in self._by_id.items():
            try:
                _same_schema(versions, f"id {schema_id} in context {context}")
            except SchemaNotFoundError as error:
                yield SchemaFinding(None, "ambiguous_id", str(error))


def _same_schema(found: list[RegisteredSchema], what: str) -> RegisteredSchema:
    """Return one of several versions, which must have the same schema. Live ones are preferred."""
    if len({(v.schema_type, v.schema, v.references) for v in found}) > 1:
        places = shortened(", ".join(map(_label, found)))
        raise SchemaNotFoundError(f"{what} is ambiguous, because different schemas have it: {places}")
    return max(found, key=lambda v: (not v.deleted, v.context == DEFAULT_CONTEXT, v.version))


def _label(version: RegisteredSchema) -> str:
    return f"{version.subject}/{version.version}"
