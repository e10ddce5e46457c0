"""The page in a real browser: a review, a killed server, hostile texts, no external requests."""

from __future__ import annotations

import json
import socket
import struct
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.annotate.browser import Tab, browser, served, shows
from support.annotate.folders import EVIL, chain_record, choice_record, make_project, text_record

from lmms_eval_ad2.annotate import drafts, page_html
from lmms_eval_ad2.annotate.folder import open_folder
from lmms_eval_ad2.annotate.project import AnnotationProject
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.core.records import BilingualText, Record, VisualPrompt


def actions(notes: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (notes / "actions.jsonl").read_text("utf-8").splitlines()]


def test_a_review_survives_a_kill_of_the_server(tmp_path: Path) -> None:
    """Answers of the bundled sample are kept, changed, deleted and scored, and restored after kill -9."""
    notes = tmp_path / "notes"
    with browser() as chromium, served("sample_coda_lm", "--out", notes, cwd=tmp_path) as server:
        tab = Tab(chromium, server.url)
        tab.page.get_by_text("Give your name above").wait_for()
        tab.reviewer("anna")
        tab.at(1)
        tab.page.wait_for_function("document.querySelector('#picture img')?.naturalWidth == 960")
        first = tab.text("answer")
        assert first.startswith("The scene is set in clear daylight")
        tab.choose("answer", "keep", "kept")
        tab.rate("answer", 8)
        tab.complete()
        tab.progress("1 finished, 59 to do")
        tab.page.click("#next")
        tab.at(2)
        tab.write("answer", "Brake for the dog.", "changed")
        tab.complete()
        tab.page.click("#next")
        tab.at(3)
        tab.choose("answer", "delete", "deleted")
        tab.complete()
        tab.page.click("#next")
        tab.at(4)
        tab.choose("answer", "change", "changed")
        tab.page.get_by_text("marked as changed, but not changed yet").wait_for()
        before = actions(notes)
        server.kill()
        server.start()
        tab.open(server.url)
        tab.reviewer("anna")
        tab.at(1)  # page and reviewer are loaded
        tab.first_open(4)
        tab.progress("3 finished, 57 to do")
        tab.go(2)
        assert tab.text("answer") == "Brake for the dog."
        tab.page.check("#only-open input")
        tab.page.click("#next")
        tab.at(4)
        assert not [r for r in tab.ended if "/queue/data" in r], "the stream of replies stays open: none is late"
        outside = {r for r in tab.requests if urlsplit(r).hostname not in ("127.0.0.1", None)}
        assert outside == set()
        assert tab.page_errors == []
        assert server.stop() == 0
    assert actions(notes) == before
    assert [(a["field"], a["action"]) for a in before[:4]] == [
        ("answer", "keep"), ("score/answer", "score"), ("complete", "complete"), ("answer", "change"),
    ]  # fmt: skip
    project = AnnotationProject(open_folder(notes))
    assert project.finished("anna") == {0, 1, 2}
    assert project.review("anna", 0).line("answer").score == 8


def test_hostile_texts_are_shown_as_text(tmp_path: Path) -> None:
    """In the question, the answer, a model's name, a step, an option, an id and a scene."""
    records: list[Record] = [
        text_record(id=f"a {EVIL}", question=BilingualText(EVIL), answer=BilingualText(EVIL), scene={"weather": EVIL}),
        chain_record(steps=(*chain_record().steps[:1],)),
        choice_record(question=BilingualText(EVIL)),
    ]
    project = make_project(tmp_path, *records)
    draft = {"id": records[0].id, "model": EVIL[:150], "answer": EVIL, "steps": None, "objects": None}
    (project.folder.path / drafts.FILE).write_text(json.dumps(draft) + "\n", "utf-8")
    root = project.folder.about.image_root
    with browser() as chromium, served("made here", "--out", project.folder.path, cwd=root) as server:
        tab = Tab(chromium, server.url)
        tab.reviewer("anna")
        tab.at(1)
        assert "default-src 'self'" in tab.policy
        assert tab.text("answer") == EVIL
        assert tab.page.locator("#facts .question").inner_text() == EVIL
        assert EVIL[:100] in tab.piece("answer").locator(".badge.pre").inner_text()
        assert tab.piece("answer").locator(".own").inner_text() == f"in the data: {EVIL}"
        tab.save_boxes(EVIL[:60], "expected x_min y_min x_max y_max")  # a message, with the text in it
        tab.save_boxes("1 2 30 40\n50 60 70 80", "Boxes and points (2)")
        tab.reviewer("<b>anna")
        tab.page.locator("[role=alert]", has_text="use letters, digits").first.wait_for()
        tab.reviewer("anna")
        tab.at(1)
        assert tab.page.title() == "Annotation"
        assert tab.page_errors == []
        assert tab.page.locator("#facts script, #facts img, .head img, .own img").count() == 0
    assert AnnotationProject(open_folder(project.folder.path)).review("anna", 0).mark.coords == (
        (1, 2, 30, 40),
        (50, 60, 70, 80),
    )


def test_two_reviewers_edit_the_same_steps(tmp_path: Path) -> None:
    """Two tabs of one server; steps added and moved; a narrow window."""
    project = make_project(tmp_path, chain_record())
    with browser() as chromium, served("made here", "--out", project.folder.path, cwd=tmp_path) as server:
        anna, bo = Tab(chromium, server.url), Tab(chromium, server.url, width=420)
        for tab, name in ((anna, "anna"), (bo, "bo")):
            tab.reviewer(name)
            tab.at(1)
        new = anna.page.locator(".piece", has=anna.page.locator(".badge.added"))
        anna.until(lambda: anna.page.click("#add"), lambda limit: new.wait_for(timeout=limit))
        anna.settled()
        key = str(new.get_attribute("id")).removeprefix("piece-")
        boxes = new.locator("input[type=text], textarea")
        for place, text in enumerate(("hazards", "What else?", "Fog.")):
            boxes.nth(place).fill(text)
            boxes.nth(place).blur()
        new.locator("button.up").click()
        anna.page.wait_for_function(
            "k => [...document.querySelectorAll('.piece')].map(p => p.id).indexOf('piece-' + k) == 3", arg=key
        )
        for step in ("step-1", "step-2", "step-3"):
            anna.choose(step, "keep", "kept")
        anna.complete()
        bo.choose("step-1", "delete", "deleted")
        bo.complete("incomplete")
        assert bo.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        assert anna.page_errors == bo.page_errors == []
    project = AnnotationProject(open_folder(project.folder.path))
    assert [line.now.name for line in project.review("anna", 0).lines][1:] == [
        "weather",
        "vehicles",
        "hazards",
        "decision",
    ]
    assert project.review("anna", 0).lines[3].now.text == "Fog."
    assert project.review("bo", 0).complete is False
    assert len(project.review("bo", 0).lines) == 4


def test_boxes_and_points_are_drawn_with_the_mouse(tmp_path: Path) -> None:
    """Dragging in any direction and over the edge, a click, a point with boxes, a point alone."""
    project = make_project(tmp_path, text_record(mark=VisualPrompt()), text_record(id="b", mark=VisualPrompt()))
    width, height = project.review("anna", 0).record.image_size or (0, 0)
    with browser() as chromium, served("made here", "--out", project.folder.path, cwd=tmp_path) as server:
        tab = Tab(chromium, server.url)
        tab.reviewer("anna")
        tab.at(1)
        tab.drag((0.75, 0.5), (0.25, 0.25))  # from the lower right corner to the upper left
        tab.page.get_by_text("Boxes and points (1)").wait_for()
        tab.drag((0.5, 0.5), (1.5, 0.75))
        tab.page.get_by_text("Boxes and points (2)").wait_for()
        full = tab.page.locator("#picture input")
        assert not full.is_checked()
        tab.page.locator("#picture img").click()
        assert full.is_checked(), "a plain click shows the picture in full size"
        tab.page.locator("#picture img").click()
        tab.page.locator("#picture img").click(modifiers=["Shift"])
        tab.page.get_by_text("either boxes (4 numbers) or points").wait_for()
        tab.go(2)
        tab.page.locator("#picture img").click(modifiers=["Shift"])  # in its middle
        tab.page.get_by_text("Boxes and points (1)").wait_for()
        assert tab.page_errors == []
    project = AnnotationProject(open_folder(project.folder.path))
    first, second = project.review("anna", 0).mark.coords
    assert first == pytest.approx((0.25 * width, 0.25 * height, 0.75 * width, 0.5 * height), abs=2)
    assert second == pytest.approx((0.5 * width, 0.5 * height, width, 0.75 * height), abs=2)
    assert project.review("anna", 1).mark.coords[0] == pytest.approx((width / 2, height / 2), abs=2)


# -- without a browser -----------------------------------------------------------------------------------------------


def test_html_is_escaped(tmp_path: Path) -> None:
    review = make_project(
        tmp_path, text_record(id=EVIL, question=BilingualText(EVIL), answer=BilingualText(EVIL))
    ).review("anna", 0)
    parts = [
        page_html.facts(review),
        page_html.status(review),
        page_html.error_message(EVIL),
        *(page_html.head(line) for line in review.lines),
    ]
    assert all("<script" not in part and "<img src=x" not in part for part in parts)


def test_a_picture_that_cannot_be_shown_is_reported(tmp_path: Path) -> None:
    project = make_project(tmp_path, text_record(images=("gone.png",)), text_record(id="b", images=("../a.png",)))
    for number, message in ((0, "no such file"), (1, "not opened")):
        assert message in page_html.picture(project.review("anna", number), project.folder.about.image_root)


def test_boxes_and_points_are_written_and_read_as_numbers() -> None:
    mark = VisualPrompt("box", ((1.0, 2.5, 3.0, 4.0), (5.0, 6.0, 7.0, 8.0)))
    assert page_html.marks_text(mark) == "1 2.5 3 4\n5 6 7 8"
    assert page_html.read_marks(page_html.marks_text(mark)) == {"kind": "box", "coords": [[1, 2.5, 3, 4], [5, 6, 7, 8]]}
    assert page_html.read_marks(" 1, 2 \n\n") == {"kind": "point", "coords": [[1, 2]]}
    assert page_html.read_marks("") == {"kind": "none", "coords": []}
    for bad, message in (("1 2 3", "line 1"), ("a b", "line 1"), ("1 2\n1 2 3 4", "either boxes")):
        with pytest.raises(Ad2Error, match=message):
            page_html.read_marks(bad)


def test_a_check_of_questions_survives_a_kill_of_the_server(tmp_path: Path) -> None:
    """A question is answered and judged, another answered only; no kind of an option reaches the browser."""
    checked = tmp_path / "checked"
    with (
        browser() as chromium,
        served("sample_autodrive_qa", "--check", "--config", "sample=6", "--out", checked, cwd=tmp_path) as server,
    ):
        tab = Tab(chromium, server.url)
        bodies: list[str] = []
        tab.page.on("response", lambda r: bodies.append(r.text()) if "/config" in r.url else None)
        tab.reviewer("anna")
        tab.at(1)
        choices = tab.page.locator("#choice input")
        shows(choices.and_(tab.page.locator(":enabled")), 4)
        assert tab.page.locator("#marked").count() == 0 and tab.page.locator("#verdict").count() == 0
        options = [json.loads(line)["options"] for line in (checked / "records.jsonl").read_text("utf-8").splitlines()]
        marked = tab.page.locator("#marked")
        tab.until(choices.nth(1).click, lambda limit: marked.wait_for(timeout=limit))
        tab.settled()
        correct = tab.page.locator("#verdict input").nth(0)
        done = tab.page.get_by_text("Finished. All saved.")
        tab.until(correct.check, lambda limit: done.wait_for(timeout=limit))
        tab.progress("1 finished, 5 to do")
        tab.page.click("#next")
        tab.at(2)
        shows(marked, 0)  # nothing of the question before is left
        shows(choices.and_(tab.page.locator(":enabled")), 4)
        tab.until(choices.nth(0).click, lambda limit: marked.wait_for(timeout=limit))
        html = tab.page.content() + "".join(bodies)
        for kind in {option["kind"] for row in options for option in row} - {"correct"}:
            assert kind not in html and kind.replace("_", " ") not in html
        server.kill()
        server.start()
        tab.open(server.url)
        tab.reviewer("anna")
        tab.at(1)
        tab.first_open(2)
        shows(choices.nth(0).and_(tab.page.locator(":checked")), 1)
        shows(choices.and_(tab.page.locator(":disabled")), 4)
        tab.progress("1 finished, 5 to do")
        assert tab.page_errors == []
        assert server.stop() == 0
    assert [row["field"] for row in actions(checked)] == ["choice", "verdict", "choice"]


def test_requests_that_do_not_come_from_the_page(tmp_path: Path) -> None:
    """Refused in one line; clients that leave, or send no HTTP, leave no traceback."""
    with served("sample_coda_lm", "--out", tmp_path / "notes", cwd=tmp_path) as server:
        address = urlsplit(server.url)

        def exchange(content: bytes, linger: int | None = None) -> bytes:
            with socket.create_connection((address.hostname, address.port), timeout=60) as client:
                client.sendall(content)
                if linger is None:
                    return client.makefile("rb").readline()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", linger, 0))
            return b""

        page = b"GET / HTTP/1.1\r\nConnection: close\r\nHost: %s\r\n"
        post = b"POST /gradio_api/queue/join HTTP/1.1\r\nContent-Type: application/json\r\nHost: localhost\r\n"
        for part in (page % b"localhost", page % b"localhost" + b"\r\n", b"\x16\x03 no HTTP\r\n\r\n",
                     post + b"Content-Length: 99\r\n\r\n{"):  # fmt: skip
            for linger in (1, 0):
                exchange(part, linger)
        assert b" 200 " in exchange(page % b"localhost" + b"\r\n")
        assert b" 421 " in exchange(page % b"evil.example" + b"\r\n")
        assert b" 403 " in exchange(page % b"localhost" + b"Origin: http://evil.example\r\n\r\n")
        assert b" 413 " in exchange(post + b"Content-Length: 2000000\r\n\r\n")
        assert b" 415 " in exchange(post + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx")
        server.stop()
        output = server.process.stdout.read()
    assert "Traceback" not in output
