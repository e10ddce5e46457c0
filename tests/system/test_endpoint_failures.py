"""No failure of an endpoint becomes a score: lmms-eval's OpenAI client and the judge, with a third of both failing.

The endpoints give each item a known answer and a known rating. Failures contain a decoy: the right option, or another
rating.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.builders import record
from support.running import run_folder, run_lmms_eval
from support.tiers import count

from lmms_eval_ad2.core.records import BilingualText, Record
from lmms_eval_ad2.data.home import write_dataset
from lmms_eval_ad2.testing import fake_replies
from lmms_eval_ad2.testing.fake_endpoint import FAILURES, FakeEndpointServer, serve

# Kind of failure -> reason of the item. The model's client is that of lmms-eval, which returns failures as text.
RAISED = ("307", "400", "403", "408", "429", "500", "502", "503", "cut", "cut_body", "invalid_json", "no_choices",
          "error_200", "html", "html_200")  # fmt: skip
MODEL = {
    **dict.fromkeys(RAISED, "request_failed"), "empty": "generation_failed", "broken_off": "generation_failed",
    "refusal": "safety_blocked", "filtered": "safety_blocked",
}  # fmt: skip
JUDGE = {
    "400": "http_400", "408": "http_408", "429": "throttled", "500": "http_500", "502": "http_502", "503": "http_503",
    "cut": "connection", "cut_body": "connection", "invalid_json": "invalid_reply", "no_choices": "invalid_reply",
    "error_200": "invalid_reply", "html": "http_502", "html_200": "invalid_reply", "empty": "empty_reply",
    "broken_off": "broken_off", "truncated": "truncated_reply", "refusal": "refused", "filtered": "refused",
    "several": "several_ratings", "hang": "timeout",
}  # fmt: skip
STOPS_THE_RUN = {"401", "402", "404", "405"}  # of every request, see test_dry_run.py and test_wrapper_guard.py
RARE = 100  # one in so many failing items gets no reply at all, which takes several time-outs
LETTERS = "ABCDEF"


def is_choice(number: int) -> bool:
    return number % 2 == 0


def right_letter(number: int) -> str:
    return LETTERS[number % 5]


def given_letter(number: int) -> str:
    """The model's choice: right for every other multiple-choice item."""
    return LETTERS[(number % 5 + number // 2 % 2) % 5]


def rating(number: int) -> int:
    return 1 + number // 2 % 10


def true_score(number: int) -> float:
    """In percent: right or wrong, or ten times the judge's rating."""
    return 100.0 * (given_letter(number) == right_letter(number)) if is_choice(number) else 10.0 * rating(number)


def item(number: int) -> Record:
    changes: dict[str, Any] = {
        "task": "relation", "subtask": ("spatial", "occlusion", "social", "causal")[number % 4],
        "question": BilingualText(f"Where does vehicle {number} wait?"), "cluster": f"c{number % 50}",
        "image_size": (32, 18),
    }  # fmt: skip
    if is_choice(number):
        return record(f"q{number}", "mc", **changes, letter=right_letter(number))
    return record(f"q{number}", "vqa", **changes, answer=BilingualText(f"Vehicle {number} waits at the gate."))


def number_in(body: dict[str, Any]) -> int:
    return int(re.findall(r"ehicle (\d+)", fake_replies.asked(body))[-1])


@dataclass
class EndpointBooks:
    """Failures that an endpoint plans for each item, and what it has sent. `reasons`: its kinds of failure."""

    salt: str
    reasons: Mapping[str, str]
    sent: dict[int, list[str]] = field(default_factory=dict)

    def plan(self, number: int) -> str:
        """The kind of failure of every request of an item; "ok" for two thirds of the items."""
        dice = random.Random(f"{self.salt} {number}")
        if dice.random() >= 1 / 3:
            return "ok"
        if "hang" in self.reasons and dice.randrange(RARE) == 0:
            return "hang"
        return dice.choice(sorted(self.reasons.keys() - {"hang"}))

    def failure(self, _: int, body: dict[str, Any]) -> str:
        """The outcome of a request. Every fifth answered item fails once, in a way that each client repeats."""
        number = number_in(body)
        kind = self.plan(number)
        sent = self.sent.setdefault(number, [])
        if kind == "ok" and not sent and number % 5 == 0:
            kind = "500"
        sent.append(kind)
        return kind

    def final(self, number: int) -> str:
        """The last thing that was sent about an item."""
        return self.sent[number][-1]


def answer(body: dict[str, Any]) -> str:
    number = number_in(body)
    return f"The answer is ({given_letter(number)})." if is_choice(number) else f"Vehicle {number} waits."


def tempting(body: dict[str, Any]) -> str:
    """The best answer, which the model does not always give."""
    number = number_in(body)
    return f"The answer is ({right_letter(number)})." if is_choice(number) else f"Vehicle {number} waits at the gate."


def verdict(body: dict[str, Any]) -> str:
    return f"Rating: [[{rating(number_in(body))}]]"


def other_verdict(body: dict[str, Any]) -> str:
    return f"Rating: [[{1 + rating(number_in(body)) % 10}]]"


def evaluate(model: FakeEndpointServer, judge: FakeEndpointServer, folder: Path) -> tuple[str, dict[str, Any]]:
    """Run lmms-eval; what it printed on standard error, and the samples by id."""
    args = f"model_version=fake,base_url={model.url},api_key=none,num_concurrent=48,max_retries=2,retry_backoff_s=0.01"
    spec = f"openai:model=fake,base_url={judge.url},concurrency=32,max_retries=2,backoff=0.001,timeout=4"
    done = run_lmms_eval(
        "--model", "openai", "--model_args", args, "--tasks", "ad2_relation", "--output_path", folder,
        cwd=folder, AD2_JUDGE=spec, OPENAI_API_KEY="none",
    )  # fmt: skip
    lines = (run_folder(folder) / "samples" / "ad2_relation.jsonl").read_text("utf-8").splitlines()
    return done.stderr, {row["id"]: row for row in map(json.loads, lines)}


def expected(number: int, model: EndpointBooks, judge: EndpointBooks) -> tuple[str, str | None, float | None]:
    """Status, reason and score that follow from what the endpoints sent last."""
    if (kind := model.final(number)) != "ok":
        return "unscored", MODEL[kind], None
    if not is_choice(number) and (kind := judge.final(number)) != "ok":
        return "unscored", JUDGE[kind], None
    return "ok", None, true_score(number)


def test_every_kind_of_failure_is_tried() -> None:
    assert set(FAILURES) == {"ok", *MODEL, *JUDGE} | STOPS_THE_RUN


@pytest.mark.soak
def test_no_failure_of_an_endpoint_becomes_a_score(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    n = count(10_000)
    Image.new("RGB", (32, 18), "red").save(tmp_path / "a.jpg")
    write_dataset("ad2_bench", "test", map(item, range(n)), image_root=tmp_path, source={"made": "test"})
    models, judges = EndpointBooks("model", MODEL), EndpointBooks("judge", JUDGE)
    with (
        serve(reply=answer, decoy=tempting, failures=models.failure, retry_after_s=0.01) as model,
        serve(reply=verdict, decoy=other_verdict, failures=judges.failure, retry_after_s=0.01) as judge,
    ):
        printed, samples = evaluate(model, judge, tmp_path)
        outcomes = {k: expected(k, models, judges) for k in range(n)}
        for number, outcome in outcomes.items():
            row = samples[f"q{number}"]
            assert (row["status"], row["reason"], row["score"]) == outcome, (number, models.sent[number])
        assert len(samples) == len(models.sent) == n
        assert all((models.final(k) == "ok") == (models.plan(k) == "ok") for k in range(n)), "others were repeated"
        assert set(judges.sent) == {k for k in range(n) if models.final(k) == "ok" and not is_choice(k)}
        _check_counts(tmp_path, printed, models, outcomes)
        requests = model.requests + judge.requests
        model.behaviour.failures = judge.behaviour.failures = ()
        _, samples = evaluate(model, judge, tmp_path)
    assert all(samples[f"q{k}"]["score"] == true_score(k) for k in range(n)), "the next run completes it"
    unscored = sum(status == "unscored" for status, _, _ in outcomes.values())
    record_property("items", n)
    record_property("requests", requests)
    record_property("unscored", unscored)


def _check_counts(folder: Path, printed: str, models: EndpointBooks, outcomes: Mapping[int, Any]) -> None:
    """The table's counts and the printed ones are those of the endpoints."""
    table = json.loads((run_folder(folder) / "summary.json").read_text("utf-8"))["tasks"]["ad2_relation"]
    reasons = Counter(f"{status}:{reason}" for status, reason, _ in outcomes.values() if status != "ok")
    assert table["reasons"] == reasons
    assert (table["n"], table["n_unparsed"], table["n_unscored"]) == (len(outcomes), 0, reasons.total())
    failed = sum(models.final(k) != "ok" for k in outcomes)
    assert f"ad2: {failed} of {len(outcomes)} requests failed" in printed
    scores = [score for _, _, score in outcomes.values() if score is not None]
    cells = table["subtasks"].values()
    assert sum(cell["official"] * cell["n_ok"] for cell in cells) == pytest.approx(sum(scores), abs=0.01)
