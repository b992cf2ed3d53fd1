"""Ids: as Kafka writes them."""

from __future__ import annotations

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clusters.node import new_uuid


@given(st.binary(min_size=16, max_size=16).filter(lambda drawn: drawn[0] >> 2 != 62))
def test_an_id_is_sixteen_bytes_in_22_characters(drawn: bytes) -> None:
    """It decodes to the bytes that were drawn, and never starts with a dash, which tools take for an option."""
    with pytest.MonkeyPatch.context() as patch:
        draws = iter([b"\xf8" + bytes(15), drawn])  # the first would start with a dash
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=next(draws)))
        text = new_uuid()
    assert len(text) == 22
    assert not text.startswith("-")
    assert base64.urlsafe_b64decode(f"{text}==") == drawn
