"""The list of public result files, and the page that is written from it."""

from __future__ import annotations

import pytest
from support.running import REPO

from closedloop_plugin.scoring.audit.result_list import ResultList, read_list

FILE = REPO / "configs" / "audit" / "bench2drive.yaml"


@pytest.fixture(scope="module")
def listed() -> ResultList:
    return read_list(FILE)


def test_the_list_has_at_least_eight_results(listed: ResultList) -> None:
    assert len(listed.results) >= 8
    assert len({result.sha256 for result in listed.results}) == len(listed.results)


def test_the_page_has_every_file_of_the_list(listed: ResultList) -> None:
    """It is the audit.md of `ad2 drive audit configs/audit/bench2drive.yaml --out runs/audit`."""
    page = (REPO / "docs" / "results" / "audit.md").read_text("utf-8")
    for file in (listed.routes, *listed.results):
        assert file.sha256 in page and file.commit in page and file.repository in page
    for one in (*listed.results, *listed.not_available):
        assert one.name in page
    for figures in (one for result in listed.results for one in result.printed):
        assert figures.source in page


def test_no_result_file_is_in_the_repository(listed: ResultList) -> None:
    assert sorted(path.name for path in FILE.parent.iterdir()) == ["bench2drive.yaml"]
