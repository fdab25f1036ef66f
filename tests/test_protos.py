"""The protos say what is really written."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf import json_format
from grpc_tools import protoc

from tests.ledger_view import Silent
from tests.servers import start_valkey
from tokenweir.core.hold import Amounts, Hold, Outcome, Part, Settlement, Subject
from tokenweir.core.partition import tag_of
from tokenweir.core.usage import Source, TokenUsage
from tokenweir.ledger.redis import RedisStore
from tokenweir.ledger.tagged import TaggedLedger

PROTO = "tokenweir/usage/v1/usage_record.proto"


@pytest.fixture
def usage_record_pb2(tmp_path: Path) -> ModuleType:
    """The generated module, which is not committed."""
    assert protoc.main(["protoc", "-Iproto", f"--python_out={tmp_path}", PROTO]) == 0
    path = tmp_path / PROTO.replace(".proto", "_pb2.py")
    spec = importlib.util.spec_from_file_location("usage_record_pb2", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def test_usage_record_is_what_the_stream_holds(
    usage_record_pb2: ModuleType, tmp_path: Path
) -> None:
    """Every field of a stream entry has its place in the message, and no other is there."""
    server = start_valkey(tmp_path)
    store = RedisStore(server.url, Silent(), deadline_seconds=5.0)
    subject = Subject(
        "acme", "ci", "u", "chat_completions", "gpt-4o", "openai", "r", "p"
    )
    hold = Hold("0-0-a", (Part(tag_of("acme"), ()),), Amounts(1, 9, 50), subject)
    settlement = Settlement(
        TokenUsage(5, 4, output_tokens=2, reasoning_tokens=1),
        Source.REPORTED,
        Outcome.COMPLETED,
        status=200,
        first_token_ms=80,
    )
    try:
        await TaggedLedger(store).reserve(hold)
        await TaggedLedger(store).settle(hold, settlement)
        (record,) = (await store.snapshot(tag_of("acme"))).records
    finally:
        await store.close()
        server.stop()

    message = json_format.ParseDict(
        dict(record), usage_record_pb2.UsageRecord(), ignore_unknown_fields=False
    )
    assert message.reasoning_tokens == 1
    assert message.first_token_ms == 80
    names = [field.name for field in usage_record_pb2.UsageRecord.DESCRIPTOR.fields]
    assert sorted(names) == sorted(record)
