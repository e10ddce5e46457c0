"""The LLM judge: order, cache, every kind of failure, usage."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.judging import items, judge_for

from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge import JudgeItem, JudgeRating
from lmms_eval_ad2.judge.backends import llm
from lmms_eval_ad2.judge.backends.llm import LLMJudge
from lmms_eval_ad2.judge.base import repeats_of, sees_images
from lmms_eval_ad2.llm.request_body import DataUrlImage
from lmms_eval_ad2.testing import fake_replies
from lmms_eval_ad2.testing.fake_endpoint import serve

pytestmark = pytest.mark.integration


def by_number(body: dict[str, Any]) -> str:
    """A mark that depends on the item: 1 + its number modulo 10."""
    found = re.search(r"answer number (\d+)", fake_replies.asked(body))
    return f"Noted.\nRating: [[{1 + int(found[1]) % 10}]]" if found else "?"


def test_order_and_length_are_those_of_the_items() -> None:
    with serve(reply=by_number, latency_s=0.002) as server:
        ratings = judge_for(server).rate(items(50), progress=False)
    assert [(r.id, r.score) for r in ratings if isinstance(r, JudgeRating)] == [
        (f"s{i}", 1 + i % 10) for i in range(50)
    ]


def test_the_request_has_the_configured_sampling() -> None:
    with serve(keep_bodies=True) as server:
        judge_for(server, seed=5, max_tokens=77, extra={"top_p": 1}).rate(items(1), progress=False)
    body = server.bodies[0]
    assert {k: body[k] for k in ("model", "temperature", "seed", "max_tokens", "top_p")} == {
        "model": "fake-1", "temperature": 0.0, "seed": 5, "max_tokens": 77, "top_p": 1,
    }  # fmt: skip
    assert [m["role"] for m in body["messages"]] == ["system", "user"]


def test_items_that_differ_only_by_id_are_requested_once() -> None:
    same = [JudgeItem(f"id{i}", "coda_region", "a", "b") for i in range(9)]
    with serve() as server:
        ratings = judge_for(server).rate(same, progress=False)
    assert server.requests == 1
    assert [r.id for r in ratings if isinstance(r, JudgeRating)] == [f"id{i}" for i in range(9)]


def test_a_second_run_sends_no_requests(tmp_path: Path) -> None:
    with serve(reply=by_number) as server:
        first = judge_for(server, tmp_path / "c.sqlite").rate(items(20), progress=False)
        second = judge_for(server, tmp_path / "c.sqlite")
        assert second.rate(items(20), progress=False) == first
        assert server.requests == 20
    assert second.usage == {
        "requests": 0, "cached": 20, "prompt_tokens": 0, "completion_tokens": 0, "retries": 0, "failed": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"model": "fake-2"}, {"temperature": 0.5}, {"seed": 1}, {"max_tokens": 9}, {"reply": {"coda_region": "official"}}],
)
def test_the_cache_key_contains_all_that_can_change_a_reply(tmp_path: Path, change: dict[str, Any]) -> None:
    with serve() as server:
        judge_for(server, tmp_path / "c.sqlite").rate(items(3), progress=False)
        judge_for(server, tmp_path / "c.sqlite", **change).rate(items(3), progress=False)
        assert server.requests == 6


def test_the_cache_key_does_not_contain_the_address(tmp_path: Path) -> None:
    for expected in (3, 0):
        with serve() as server:
            judge_for(server, tmp_path / "c.sqlite").rate(items(3), progress=False)
        assert server.requests == expected


FAILURES = {
    "500": "http_500", "503": "http_503", "429": "throttled", "400": "http_400", "cut": "connection",
    "cut_body": "connection", "invalid_json": "invalid_reply", "no_choices": "invalid_reply", "empty": "empty_reply",
    "html": "http_502", "html_200": "invalid_reply", "truncated": "truncated_reply", "refusal": "refused",
    "filtered": "refused", "broken_off": "broken_off", "error_200": "invalid_reply", "several": "several_ratings",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "reason"), FAILURES.items())
def test_a_failure_is_unscored_and_not_cached(tmp_path: Path, kind: str, reason: str) -> None:
    def failing(number: int, body: dict[str, Any]) -> str:
        return kind if "answer number 3" in fake_replies.asked(body) else "ok"

    with serve(reply=by_number, failures=failing, retry_after_s=0.001) as server:
        judge = judge_for(server, tmp_path / "c.sqlite")
        ratings = judge.rate(items(6), progress=False)
    assert [isinstance(r, JudgeRating) for r in ratings] == [i != 3 for i in range(6)]
    assert isinstance(ratings[3], Unscored) and (ratings[3].metric, ratings[3].reason) == ("coda_region", reason)
    with serve(reply=by_number) as healthy:
        later = judge_for(healthy, tmp_path / "c.sqlite").rate(items(6), progress=False)
        assert healthy.requests == 1
    assert [r.score for r in later if isinstance(r, JudgeRating)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("Score: 0 (rule 1 violated)", "unparsed_reply"), ("10", "unparsed_reply"), ("Rating: [[0]]", "out_of_range"),
        ("[[5]] out of [[10]]", "several_ratings"), ("I rate [[3]]. The scale is [[1]] to [[10]]", "several_ratings"),
        ("I am sorry, I cannot rate this.", "unparsed_reply"), ("<html>Rating: 9</html>", "unparsed_reply"),
    ],
)  # fmt: skip
def test_a_reply_without_a_mark_is_unscored_and_not_cached(tmp_path: Path, reply: str, reason: str) -> None:
    with serve(reply=reply) as server:
        for expected_requests in (1, 2):
            (found,) = judge_for(server, tmp_path / "c.sqlite").rate(items(1), progress=False)
            assert isinstance(found, Unscored) and found.reason == reason
            assert server.requests == expected_requests


def test_items_without_the_required_fields_are_not_sent() -> None:
    incomplete = [JudgeItem("a", "coda_general", "x"), JudgeItem("b", "ad2_slps", "x", steps=("x",)), *items(1)]
    with serve() as server:
        ratings = judge_for(server).rate(incomplete, progress=False)
    assert [r.reason if isinstance(r, Unscored) else r.score for r in ratings] == ["no_reference", "no_steps", 7]
    assert server.requests == 1


def test_an_invalid_api_key_ends_the_run_after_saving_received_replies(tmp_path: Path) -> None:
    with (
        serve(failures=lambda n, body: "ok" if n < 10 else "401") as server,
        pytest.raises(Ad2Error, match="OPENAI_API_KEY"),
    ):
        judge_for(server, tmp_path / "c.sqlite").rate(items(2000), progress=False)
    assert server.requests < 30
    with serve() as healthy:
        judge_for(healthy, tmp_path / "c.sqlite").rate(items(20), progress=False)
    assert healthy.requests == 10


def test_the_requests_to_come_are_those_without_a_cached_reply(tmp_path: Path) -> None:
    cache, three = tmp_path / "c.sqlite", items(3)
    with serve(reply=by_number) as server:
        judge = judge_for(server, cache)
        assert isinstance(judge, LLMJudge)
        assert len(judge.unsent(three)) == 3 and not cache.exists(), "a plan writes nothing"
        judge.rate(three[:2], progress=False)
        ((key, body),) = judge.unsent([*three, JudgeItem("empty", "coda_region", "", "")])
        sent = server.requests
    assert sent == 2
    assert "answer number 2" in body["messages"][-1]["content"] and len(key) == 64


def test_an_unknown_rubric_is_an_error() -> None:
    with serve() as server, pytest.raises(Ad2Error, match="unknown rubric 'coda_genral'; did you mean coda_general"):
        judge_for(server).rate([JudgeItem("a", "coda_genral", "x", "y")])


def test_usage_and_description(tmp_path: Path) -> None:
    with serve(failures=["500"]) as server:
        judge = judge_for(server, price_prompt=2.5, price_completion=10)
        judge.rate(items(4), progress=False)
    usage, description = judge.usage, judge.describe()
    assert (usage["requests"], usage["retries"], usage["failed"]) == (5, 1, 0)
    assert usage["cost"] == pytest.approx((2.5 * usage["prompt_tokens"] + 10 * usage["completion_tokens"]) / 1e6)
    assert usage["completion_tokens"] == 8
    assert (judge.label, description["backend"], description["model"]) == ("openai:fake-1", "openai", "fake-1")
    assert (description["temperature"], description["seed"], description["served_as"]) == (0.0, 0, ["fake-1"])
    assert len(description["rubrics"]["coda_region"]["sha256"]) == 64


def test_progress_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with serve() as server:
        judge_for(server).rate(items(3), progress=True)
        assert "3/3" in capsys.readouterr().err
        judge_for(server).rate(items(3), progress=False)
        assert capsys.readouterr().err == ""


def test_each_repetition_is_a_request_of_its_own_and_cached_by_its_number(tmp_path: Path) -> None:
    cache, replies = tmp_path / "c.sqlite", iter(f"Rating: [[{mark}]]" for mark in (3, 5, 9, 1))
    three = [replace(item, repetition=k) for item in items(1) for k in range(3)]
    with serve(reply=lambda body: next(replies), keep_bodies=True) as server:
        judge = judge_for(server, cache, repeats=3, seed=7, concurrency=1)
        found = judge.rate(three, progress=False)
        again = judge_for(server, cache, repeats=3, seed=7, concurrency=1).rate(three, progress=False)
    assert [r.score for r in found if isinstance(r, JudgeRating)] == [3, 5, 9] and again == found
    assert [body["seed"] for body in server.bodies] == [7, 8, 9]
    assert len({body["messages"][-1]["content"] for body in server.bodies}) == 1
    assert judge.describe()["repeats"] == 3 and repeats_of(judge) == 3
    with serve() as server:  # the first judgement is the one of a run without repetitions
        assert judge_for(server, cache, seed=7).rate(items(1), progress=False) == found[:1]
        assert server.requests == 0


def test_repeated_requests_without_a_seed_are_equal(tmp_path: Path) -> None:
    two = [replace(item, repetition=k) for item in items(1) for k in range(2)]
    with serve(keep_bodies=True) as server:
        judge_for(server, seed=None).rate(two, progress=False)
    assert len(server.bodies) == 2 and server.bodies[0] == server.bodies[1]


def seen(color: int, item: JudgeItem) -> JudgeItem:
    picture = DataUrlImage.of("", Image.new("RGB", (8, 4), (color, 0, 0)))
    return replace(item, images=lambda: (picture,))


def test_a_judge_that_sees_images_is_sent_them_before_the_text(tmp_path: Path) -> None:
    (item,), cache = items(1), tmp_path / "c.sqlite"
    with serve(keep_bodies=True) as server:
        judge = judge_for(server, cache, images=True)
        for shown in (seen(9, item), seen(9, item), seen(200, item)):
            judge.rate([shown], progress=False)
        judge_for(server, cache).rate([item], progress=False)
    assert server.requests == 3, "equal images once, other images again; a judge without images has keys of its own"
    picture, text = server.bodies[0]["messages"][-1]["content"]
    content = base64.b64decode(picture["image_url"]["url"].removeprefix("data:image/jpeg;base64,"))
    assert Image.open(io.BytesIO(content)).size == (8, 4)
    assert text == {"type": "text", "text": server.bodies[2]["messages"][-1]["content"]}
    assert "You are also shown the images" in server.bodies[0]["messages"][0]["content"]
    assert "You are also shown the images" not in server.bodies[2]["messages"][0]["content"]
    assert judge.label == "openai:fake-1 (sees the images)" and judge.describe()["images"] == "JPEG, quality 95"
    assert sees_images(judge) and not sees_images(judge_for(server))


def test_images_that_texts_and_repetitions_share_are_loaded_once() -> None:
    loads: list[str] = []

    def load() -> tuple[DataUrlImage, ...]:
        loads.append("record")
        return (DataUrlImage.of("", Image.new("RGB", (8, 4))),)

    shared = [replace(item, images=load, repetition=k) for item in items(2) for k in range(3)]
    with serve() as server:
        found = judge_for(server, images=True, repeats=3).rate(shared, progress=False)
    assert len(found) == server.requests == 6 and loads == ["record"]


def test_an_item_without_a_readable_image_is_unscored() -> None:
    def broken() -> tuple[DataUrlImage, ...]:
        raise DataError("a.jpg", None, "image", "a readable image")

    (item,) = items(1)
    with serve() as server:
        found = judge_for(server, images=True).rate([item, replace(item, images=broken)], progress=False)
    assert [(r.reason, r.detail) for r in found if isinstance(r, Unscored)] == [
        ("no_image", "the item has no images"), ("no_image", "a.jpg: field 'image': expected a readable image"),
    ]  # fmt: skip
    assert server.requests == 0


def test_many_images_are_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "IMAGES_AT_ONCE", 3)
    with serve(reply=by_number) as server:
        found = judge_for(server, images=True).rate([seen(k, i) for k, i in enumerate(items(8))], progress=False)
    assert [r.score for r in found if isinstance(r, JudgeRating)] == [1 + k for k in range(8)]
