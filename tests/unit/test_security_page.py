"""docs/security.md: its numbers are those of the code, and its tests exist."""

from __future__ import annotations

import re

import pytest
from support.running import REPO, TESTS

from closedloop_plugin.core import xml_files
from closedloop_plugin.interfaces.serve import http_api
from closedloop_plugin.interfaces.serve import requests as served_requests
from closedloop_plugin.interfaces.serve.http_api import RequestLimits
from closedloop_plugin.maps import opendrive_file
from closedloop_plugin.robots.onboard import wire
from closedloop_plugin.robots.planner import decision_cycle
from closedloop_plugin.robots.planner import session as planner_session
from closedloop_plugin.threats import spec_parsing
from lmms_eval_ad2.annotate import page_server
from lmms_eval_ad2.core import served_connections
from lmms_eval_ad2.data.home import parts, record_check
from lmms_eval_ad2.data.releases import parquet, stream, untrusted_row
from lmms_eval_ad2.llm import completion
from lmms_eval_ad2.storage import decoder_bounds, image_files, journal, untrusted_json

PAGE = (REPO / "docs" / "security.md").read_text("utf-8")
MIB = 1 << 20


@pytest.mark.parametrize("place", sorted(set(re.findall(r"`([\w/]+\.py::\w+)`", PAGE))))
def test_every_named_test_exists(place: str) -> None:
    file, _, name = place.partition("::")
    assert re.search(rf"^def {name}\(", (TESTS / file).read_text("utf-8"), re.MULTILINE)


def test_the_page_names_a_test_for_every_entry() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| entry", "|---"))]
    assert len(rows) >= 14 and all(".py::" in row for row in rows)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("{} MiB a line, 64 levels", stream.LONGEST_ROW / MIB),
        ("{} MiB an item", stream.LONGEST_ROW / MIB),
        ("a line, {} levels", untrusted_json.DEEPEST),
        ("{} characters of JSON", f"{record_check.LONGEST_RECORD:,}"),
        ("{} MiB of records are kept", parts.PART_CHARACTERS / MIB),
        ("{} MiB (Linux)", parquet.BATCH_MEMORY / MIB + 128),
        ("{} MiB, 50 million pixels", image_files.MOST_BYTES / MIB),
        ("64 MiB, {} million pixels", image_files.MOST_PIXELS / 1e6),
        ("50 million pixels, {} a side", f"{decoder_bounds.MOST_SIDE:,}"),
        ("more than {} scans", decoder_bounds.MOST_SCANS),
        ("{} segments or chunks", f"{decoder_bounds.MOST_PARTS:,}"),
        ("{} KiB of EXIF data", decoder_bounds.MOST_TEXT / 1024),
        ("header is not complete after {} s", served_connections.HEADER_S),
        ("is silent for {} s", served_connections.IDLE_S),
        ("At most {} (pages", http_api._CONNECTIONS),
        ("(pages: {}) are open", page_server.MOST_CONNECTIONS),
        ("{} MiB, 64 levels | 2 GiB", untrusted_json.LARGEST_FILE / MIB),
        ("route file (XML) | {} MiB", xml_files.LARGEST_ROUTES / MIB),
        ("numbers up to {}, routes", f"{xml_files.FARTHEST_M:,.0f}"),
        ("routes of up to {} km", xml_files.LONGEST_M / 1000),
        ("map (OpenDRIVE) | {} MiB", xml_files.LARGEST_MAP / MIB),
        ("with {} lanes a section", opendrive_file.MOST_LANES),
        ("a section, {} km of lanes", f"{opendrive_file.MOST_LANE_M / 1000:,.0f}"),
        ("line of a journal | {} MiB", journal.LONGEST_LINE / MIB),
        ("{} MiB, uncompressed", completion.LONGEST_BODY / MIB),
        ("{} MiB (`--config max_body_mb`)", RequestLimits().body_bytes / MIB),
        ("{} values, 40 million pixels", f"{served_requests.MOST_VALUES:,}"),
        ("values, {} million pixels", served_requests.MOST_PIXELS / 1e6),
        ("at most {} MiB together", RequestLimits().bodies_bytes / MIB),
        ("images of at most {} requests", RequestLimits().parsed),
        ("{} requests are\nparsed at a time", {2: "two"}[http_api._PARSERS]),
        ("`ad2 annotate` | {} MiB", page_server.MOST_BODY / MIB),
        ("{} values, 64 levels; 256 connections", f"{page_server.MOST_VALUES:,}"),
        ("{} KiB header", wire.HEADER_MAX / 1024),
        ("{} MiB image", wire.BLOB_MAX / MIB),
        ("{} KiB before it is authenticated", wire.HANDSHAKE_MAX / 1024),
        ("{} million pixels; 1 KiB", decision_cycle.MOST_PIXELS / 1e6),
        ("| {} characters, 8 levels", f"{spec_parsing.LONGEST:,}"),
        ("characters, {} levels", spec_parsing.DEEPEST),
        ("names have at most {} characters", record_check.LONGEST_NAME),
        ("a text {}, a record", f"{untrusted_row.LONGEST_TEXT:,}"),
        ("a record {} images", untrusted_row.MOST_PARTS),
        ("at most {} pixels a side", f"{untrusted_row.LARGEST_SIDE:,}"),
        ("more than {} bytes are refused", f"{image_files.LONGEST_NAME:,}"),
        ("at most {} connections in their handshake", planner_session.HANDSHAKES_MAX),
        ("handshake, {} from one address", planner_session.HANDSHAKES_PER_ADDRESS),
        ("one address, for {} s", planner_session.HANDSHAKE_S),
    ],
)
def test_the_numbers_are_those_of_the_code(text: str, number: float | str) -> None:
    assert text.format(number if isinstance(number, str) else f"{number:g}") in PAGE
