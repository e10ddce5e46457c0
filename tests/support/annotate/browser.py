"""A real browser (Debian's chromium, driven by playwright) on a real `ad2 annotate` in a separate process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from support.running import BIN, environment

PATIENCE_MS = 120_000  # ten times as long as a busy machine needs


def skip_without(what: str, how: str) -> None:
    """Skip the test; under CI, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"no {what}: {how}")
    pytest.skip(f"no {what} here: {how}")


class Server:
    """A running `ad2 annotate WORDS --port 0`, or another command that serves a page."""

    def __init__(self, *words: str | Path, cwd: Path, command: tuple[str, ...] = ("annotate",)) -> None:
        self.words, self.cwd, self.command = [str(w) for w in words], cwd, command
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [BIN / "ad2", *self.command, *self.words, "--port", "0"],
            cwd=self.cwd, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        output = ""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            output += line
            if found := re.search(r"http://\S+", line):
                self.url = found[0]
                return
        raise AssertionError(f"the server ended before it printed an address:\n{output}")

    def kill(self) -> None:
        """End as by a power cut."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End as by SIGTERM; returns the exit code."""
        self.process.terminate()
        return self.process.wait(120)


@contextmanager
def served(*words: str | Path, cwd: Path, command: tuple[str, ...] = ("annotate",)) -> Iterator[Server]:
    pytest.importorskip("gradio")
    server = Server(*words, cwd=cwd, command=command)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


@contextmanager
def browser() -> Iterator[Any]:
    """A playwright Browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        skip_without("chromium", "apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip_without("playwright", "pip install playwright")
    with sync_playwright() as playwright:
        chromium_browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=PATIENCE_MS
        )
        try:
            yield chromium_browser
        finally:
            chromium_browser.close()


def shows(elements: Any, count: int) -> None:
    """Wait until the page has exactly `count` elements. Gradio inserts those of a record one after the other."""
    from playwright.sync_api import expect

    expect(elements).to_have_count(count, timeout=PATIENCE_MS)


class Tab:
    """One page, with the actions of a reviewer. Every wait is for a visible change."""

    def __init__(self, browser: Any, url: str, *, width: int = 1400, height: int = 900) -> None:
        self.context = browser.new_context(viewport={"width": width, "height": height})
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.requests: list[str] = []
        self.page_errors: list[str] = []
        self.context.on("request", lambda r: self.requests.append(r.url))
        self.ended: list[str] = []  # addresses of requests with a complete reply
        self.context.on("requestfinished", lambda r: self.ended.append(r.url))
        self.page.on("pageerror", lambda e: self.page_errors.append(str(e)))
        self.page.on("dialog", lambda d: (self.page_errors.append(f"dialog {d.message}"), d.dismiss()))
        self.open(url)

    def open(self, url: str) -> None:
        response = self.page.goto(url)
        self.policy = str(response and response.headers.get("content-security-policy"))
        self.page.wait_for_selector("#reviewer input, #reviewer textarea")

    def reviewer(self, name: str) -> None:
        self.settled()
        box = self.page.locator("#reviewer input, #reviewer textarea").first
        box.fill(name)
        box.press("Enter")

    def at(self, number: int, patience_ms: float | None = None) -> None:
        """Wait until record `number` (from 1) is shown and the page has settled."""
        shown = "n => document.querySelector('#shown')?.textContent == n"
        self.page.wait_for_function(shown, arg=str(number), timeout=patience_ms)
        self.settled()

    def settled(self) -> None:
        """Wait until the page has nothing to do: events of new inputs are connected after the inputs are displayed."""
        self.page.evaluate("new Promise(idle => requestIdleCallback(() => requestAnimationFrame(idle)))")

    def until(self, act: Callable[[], object], shown: Callable[[float], object]) -> None:
        """Repeat `act` until `shown(patience in ms)` does not time out.

        Gradio connects the events of inputs shortly after it displays them; on a slow machine a click may come first.
        """
        from playwright.sync_api import TimeoutError as Late

        for patience_ms in (20_000, 30_000, 60_000):
            act()
            with suppress(Late):
                shown(patience_ms)
                return
        raise AssertionError("an input had no effect, three times")

    def go(self, number: int) -> None:
        box = self.page.locator("#jump input")

        def jump() -> None:
            box.fill(str(number))
            box.press("Enter")

        self.until(jump, lambda limit: self.at(number, limit))

    def first_open(self, number: int) -> None:
        """Go to the first unfinished record, which is `number`."""
        self.until(lambda: self.page.click("#first-open"), lambda limit: self.at(number, limit))

    def save_boxes(self, text: str, message: str) -> None:
        """Write boxes or points, and wait for the message. Text written before the input is connected is not sent."""

        def save() -> None:
            self.page.locator("#boxes textarea").fill(text)
            self.page.click("#save-boxes")

        answer = self.page.get_by_text(message).first
        self.until(save, lambda limit: answer.wait_for(timeout=limit))

    def piece(self, key: str) -> Any:
        return self.page.locator(f"#piece-{key}")

    def choose(self, key: str, verdict: str, shown: str) -> None:
        """Choose a verdict. If the click has no effect, choose another verdict and then this one again.

        A second click on a checked radio button would do nothing.
        """
        from playwright.sync_api import TimeoutError as Late

        other = "keep" if verdict == "delete" else "delete"
        for patience_ms in (30_000, 30_000, PATIENCE_MS):
            self.piece(key).locator(f"input[type=radio][value={verdict}]").check()
            try:
                self.piece(key).locator(f".badge.{shown}").wait_for(timeout=patience_ms)
                return
            except Late:
                self.piece(key).locator(f"input[type=radio][value={other}]").check()
        raise AssertionError(f"{verdict} of {key} was never shown as {shown}")

    def write(self, key: str, text: str, shown: str) -> None:
        box = self.piece(key).locator(".text textarea")

        def type_it() -> None:
            box.fill(text)
            box.blur()

        badge = self.piece(key).locator(f".badge.{shown}")
        self.until(type_it, lambda limit: badge.wait_for(timeout=limit))

    def text(self, key: str) -> str:
        return str(self.piece(key).locator(".text textarea").input_value())

    def drag(self, start: tuple[float, float], stop: tuple[float, float]) -> None:
        """Drag the mouse over the picture, from `start` to `stop` in fractions of its width and height."""
        mouse, picture = self.page.mouse, self.page.locator("#picture img").first
        picture.hover()  # so that its layout is final
        shown = picture.bounding_box()
        (x0, y0), (x1, y1) = (
            (shown["x"] + u * shown["width"], shown["y"] + v * shown["height"]) for u, v in (start, stop)
        )
        mouse.move(x0, y0)
        mouse.down()
        mouse.move((x0 + x1) / 2, (y0 + y1) / 2)
        mouse.move(x1, y1)
        mouse.up()

    def rate(self, key: str, score: int) -> None:
        self.piece(key).locator(".score input").click()
        self.page.get_by_role("option", name=f"score {score}", exact=True).click()

    def complete(self, value: str = "complete") -> None:
        """Answer the last question, and wait until the record counts as finished."""
        other = "incomplete" if value == "complete" else "complete"
        wanted = self.page.locator(f"#complete input[value={value}]")
        done = self.page.locator("#status .status.done")

        def answer() -> None:
            if wanted.is_checked():  # a second click on a checked radio button would do nothing
                self.page.locator(f"#complete input[value={other}]").check()
            wanted.check()

        self.until(answer, lambda limit: done.wait_for(timeout=limit))

    def progress(self, text: str) -> None:
        self.page.locator("#progress", has_text=text).wait_for()
