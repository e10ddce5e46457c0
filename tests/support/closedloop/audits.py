"""Lists, results and a file server for the tests of the audit."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from closedloop_plugin.scoring.audit.recomputed import AuditedResult
from closedloop_plugin.scoring.audit.result_list import ListedResult, PrintedFigures
from closedloop_plugin.scoring.driving import driving_score, success_rate
from closedloop_plugin.scoring.measures import ComparedEpisode, ComparedRun
from closedloop_plugin.scoring.official_record import OfficialRecord, parse_record

COMMIT = "a" * 40


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def entry(id: str = "one", content: bytes = b"{}", **changes: Any) -> dict[str, Any]:
    """One entry of a list as plain values."""
    return {
        "id": id, "name": id.title(), "repository": "group/project", "commit": COMMIT, "path": f"results/{id}.json",
        "sha256": sha256(content), "license": "MIT", **changes,
    }  # fmt: skip


def listed(id: str = "one", content: bytes = b"{}", **changes: Any) -> ListedResult:
    return ListedResult.model_validate(entry(id, content, **changes))


def audited_result(
    id: str, scores: Any, printed: float | None = None, missing: Collection[int] = (), **changes: Any
) -> AuditedResult:
    """A result with these Driving Scores on the routes 0, 1, ...; a success is a score of 100.

    `missing`: routes without a record; `printed`: figure in both measures.
    """
    ids = [str(i) for i in range(len(scores))]
    records = [_record(i, float(score)) for i, score in enumerate(scores) if i not in missing]
    means = {"driving_score": driving_score(records, len(ids)), "success_rate": success_rate(records, len(ids))}
    figures = () if printed is None else (PrintedFigures(source="page", driving_score=printed, success_rate=printed),)
    intervals = {"driving_score": None, "success_rate": None}
    summary = {
        **means, "intervals": intervals, "missing": [[str(i), 0] for i in missing], "n_missing": len(missing),
        "n_records": len(records), "n_crashed": 0, "n_routes": len(ids), "n_duplicates": 0, "notes": [],
        "n_inconsistent": 0, "inconsistent": [], "unchecked": {},
    }  # fmt: skip
    return AuditedResult(
        listed=listed(id, printed=figures, **changes),
        run=ComparedRun(id, ids, [ComparedEpisode.of(record) for record in records]),
        summary=summary,
        bases=[{"what": "routes", "n": len(ids), **means, "whole": True}],
        printed=figures,
    )


def _record(route: int, score: float) -> OfficialRecord:
    raw = {"route_id": f"RouteScenario_{route}_rep0", "status": "Completed" if score == 100.0 else "Failed",
           "infractions": {}, "scores": {"score_composed": score}}  # fmt: skip
    return parse_record(raw, "results.json", route)


@dataclass
class FileServer:
    """A local server of files by path. `requests`: paths in the order in which they were asked for.

    A status instead of a content is answered without a body, a text is the address of a redirect.
    A path in `cut` announces 100 bytes more than it sends.
    """

    files: Mapping[str, bytes | int | str]
    cut: frozenset[str] = frozenset()
    requests: list[str] = field(default_factory=list)
    address: str = ""


@contextmanager
def serving(files: Mapping[str, bytes | int | str], cut: frozenset[str] = frozenset()) -> Iterator[FileServer]:
    server = FileServer(files, cut)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append(self.path)
            content = server.files.get(self.path, 404)
            if isinstance(content, int):
                self.send_error(content)
                return
            if isinstance(content, str):
                self.send_response(302)
                self.send_header("Location", content)
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) + 100 * (self.path in server.cut)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None: ...

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    server.address = f"http://127.0.0.1:{http.server_address[1]}"
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
