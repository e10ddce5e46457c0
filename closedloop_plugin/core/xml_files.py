"""Reading of XML files that others wrote (routes, OpenDRIVE), with bounds on their size and coordinates."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.untrusted_json import read_bytes

LARGEST_ROUTES = 32 << 20  # bytes of a file
LARGEST_MAP = 128 << 20  # bytes: room for a large town, with thousands of roads
FARTHEST_M = 1e6  # largest absolute coordinate
LONGEST_M = 100_000.0  # of a route or a road
MOST_POINTS = 60_000  # of a route: 100 km with a point every 2 m have 50,000


class MapError(Ad2Error):
    """A map that a reader cannot use. There are two, which differ in what they accept: Scenic's and our lane reader."""

    def __init__(self, file: object, reader: str, problem: str) -> None:
        super().__init__(f"{file}: {reader} cannot use this map: {problem}")
        self.file, self.reader, self.problem = file, reader, problem

    def of_user(self, user: str, file: object, way_out: str) -> MapError:
        """The error of what uses the map, a route or a line of a program, with the user's own file and the way out."""
        return MapError(f"{user}: {file or self.file}", self.reader, f"{self.problem}; {way_out}")


def xml_bytes(file: Path, kind: str, most: int) -> bytes:
    """The content of a file of at most `most` bytes. `kind`: "map", for errors. Raises Ad2Error."""
    try:
        return read_bytes(file, most)
    except OSError as exc:
        raise Ad2Error(f"{file}: cannot read the {kind} ({exc.strerror})") from exc
    except ValueError as exc:
        raise Ad2Error(f"{file}: {exc}; too large for a {kind}") from exc


def parse_xml(content: bytes, file: object, expected: str) -> ET.Element:
    """The root element. `file`, `expected` ("an OpenDRIVE file"): for errors. Raises Ad2Error if it is not XML."""
    try:
        return ET.fromstring(content)
    except (ET.ParseError, ValueError, LookupError) as exc:  # the last two: of an encoding that is not supported
        raise Ad2Error(f"{file}: not {expected}: {exc}") from exc
