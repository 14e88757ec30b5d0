"""Parse Protobuf schemas: texts of .proto files, or FileDescriptorProtos in base64.

protoc of the package grpcio-tools parses them, in a process of its own, because a bad file could
otherwise end this process or print to the terminal.
"""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ...support.extras import install_line
from ...support.text import shown
from ..errors import InvalidSchemaError
from .confluent import CONFLUENT_FILES
from .descriptors import Message, ProtoEnum, ProtoField, ProtoFile

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

MAIN = "kafkafmt/schema.proto"
LONGEST_SECONDS = 60
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")
_TYPES = (
    "", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message",
    "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
"""Names of the types by their numbers in FieldDescriptorProto."""


def parse_protobuf(text: str, references: Mapping[str, str] | None = None) -> ProtoFile:
    """Parse a schema. `references` are the schemas that it imports, directly or not, by their paths in imports."""
    return _parse(text, tuple((references or {}).items()))


@lru_cache(maxsize=256)
def _parse(text: str, references: tuple[tuple[str, str], ...]) -> ProtoFile:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ModuleNotFoundError:
        raise _not_installed() from None
    if find_spec("grpc_tools") is None:
        raise _not_installed()
    encoded = _decoded_base64(text) is not None
    files = descriptor_pb2.FileDescriptorSet.FromString(_compiled(text, dict(references)))
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
        main = pool.FindFileByName(files.file[-1].name)
        converter = _Converter()
        messages = [converter.message(d) for d in main.message_types_by_name.values()]
    except (KeyError, RecursionError, TypeError) as error:
        raise InvalidSchemaError(f"the schema cannot be used: {error}") from None
    return ProtoFile(messages, encoded)


def _not_installed() -> InvalidSchemaError:
    return InvalidSchemaError(f"Protobuf schemas need kafkafmt[schemas]: {install_line('schemas')}")


def _decoded_base64(text: str) -> bytes | None:
    """Return the bytes of a schema in base64, or None if it is the text of a .proto file."""
    if not _BASE64.fullmatch(text):
        return None
    try:
        return base64.b64decode(re.sub(r"\s", "", text), validate=True)
    except binascii.Error as error:
        raise InvalidSchemaError(f"the schema is not base64: {error}") from None


def _compiled(text: str, references: Mapping[str, str]) -> bytes:
    """Return a FileDescriptorSet with the schema as its last file, and with all files that it imports."""
    from google.protobuf import descriptor_pb2

    encoded = descriptor_pb2.FileDescriptorSet()
    main = MAIN
    with TemporaryDirectory(prefix="kafkafmt-") as name:
        folder = Path(name, "schemas")
        folder.mkdir()
        for path, content in {**CONFLUENT_FILES, **references, "": text}.items():
            raw = _decoded_base64(content)
            if raw is None:
                _write(folder, path or MAIN, content)
                continue
            try:
                file = encoded.file.add()
                file.MergeFromString(raw)
            except Exception:  # DecodeError, whose module has moved
                raise InvalidSchemaError("the schema is neither a .proto file nor a FileDescriptorProto") from None
            if path:
                file.name = path
            else:
                main = file.name
        arguments = _include_paths(folder)
        if encoded.file:
            Path(name, "encoded").write_bytes(encoded.SerializeToString())
            arguments.append(f"--descriptor_set_in={Path(name, 'encoded')}")
        if not main or main.startswith(("-", "@")):
            raise InvalidSchemaError(f"the name of its file is {shown(main)}")
        output = Path(name, "compiled")
        arguments += ["--include_imports", f"--descriptor_set_out={output}", main]
        try:
            done = subprocess.run(
                # Python must not find modules among the schemas, nor in the current directory.
                [sys.executable, "-P", "-m", "grpc_tools.protoc", *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=LONGEST_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise InvalidSchemaError(f"protoc did not finish within {LONGEST_SECONDS} seconds") from None
        except OSError as error:
            raise InvalidSchemaError(f"protoc cannot be started: {error}") from None
        if done.returncode or not output.exists():
            printed = done.stderr.decode(errors="replace").replace(f"{folder}/", "")
            raise InvalidSchemaError(_reason(printed, done.returncode))
        return output.read_bytes()


def _write(folder: Path, path: str, content: str) -> None:
    parts = path.split("/")
    if not all(part and part not in (".", "..") for part in parts) or "\\" in path or "\0" in path or ":" in path:
        raise InvalidSchemaError(f"{shown(path)} is not the path of an import")
    try:
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8", newline="")
    except (OSError, UnicodeError) as error:
        raise InvalidSchemaError(f"{shown(path)} is not the path of an import: {error}") from None


def _include_paths(folder: Path) -> list[str]:
    """Return arguments for protoc: the schemas, its own files, and google/type and google/api if they are installed."""
    paths = [str(folder)]
    for package, above in (("grpc_tools", "_proto"), ("google.type", "../..")):
        try:
            spec = find_spec(package)
        except ModuleNotFoundError:
            continue
        paths += [str((Path(place) / above).resolve()) for place in (spec and spec.submodule_search_locations) or ()]
    return [f"-I{path}" for path in paths]


def _reason(printed: str, code: int) -> str:
    """Return the first error of protoc in one line."""
    lines = [line for line in printed.splitlines() if line.strip() and "warning:" not in line]
    if not lines:
        return f"protoc ended with exit code {code}"
    found = re.fullmatch(rf"{re.escape(MAIN)}:(?:(\d+):\d+: )?(.*)", lines[0])
    if found is None:
        return shown(lines[0])[1:-1]
    return f"line {found[1]}: {found[2]}" if found[1] else found[2]


class _Converter:
    """Converts descriptors of google.protobuf. Messages refer to each other directly, so they can form cycles."""

    def __init__(self) -> None:
        self._messages: dict[str, Message] = {}
        self._enums: dict[str, ProtoEnum] = {}

    def message(self, top: Descriptor) -> Message:
        pending = [top]
        found = self._known(top, pending)
        while pending:
            descriptor = pending.pop()
            if descriptor.full_name in self._messages and self._messages[descriptor.full_name].fields:
                continue
            message = self._known(descriptor, pending)
            message.nested = [self._known(d, pending) for d in descriptor.nested_types]
            message.fields = [self._field(f, message.is_map_entry, pending) for f in descriptor.fields]
        return found

    def _known(self, descriptor: Descriptor, pending: list[Any]) -> Message:
        name = descriptor.full_name
        if name not in self._messages:
            self._messages[name] = Message(name, is_map_entry=bool(descriptor.GetOptions().map_entry))
            pending.append(descriptor)
        return self._messages[name]

    def _field(self, field: FieldDescriptor, in_map_entry: bool, pending: list[Any]) -> ProtoField:
        repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED
        return ProtoField(
            field.number,
            field.name,
            _TYPES[field.type],
            bool(repeated),
            bool(field.has_presence) and not in_map_entry,
            None if field.message_type is None else self._known(field.message_type, pending),
            None if field.enum_type is None else self._enum(field.enum_type),
            None if field.containing_oneof is None else field.containing_oneof.full_name,
        )

    def _enum(self, descriptor: EnumDescriptor) -> ProtoEnum:
        name = descriptor.full_name
        if name not in self._enums:
            symbols: dict[int, str] = {}
            for value in descriptor.values:
                symbols.setdefault(value.number, value.name)
            self._enums[name] = ProtoEnum(name, symbols, bool(descriptor.is_closed))
        return self._enums[name]
