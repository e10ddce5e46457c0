"""The LLM judge: items -> prompts -> one batch to an OpenAI-compatible endpoint -> marks.

A reply is cached if a mark could be read from it, so that a second run repeats only the failed requests. The cache key
covers everything that can change a reply: rubric hash, model, temperature, seed, token limit, messages, number of the
repetition. It does not contain the address, since a server may move to another port.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from lmms_eval_ad2.core.errors import DataError
from lmms_eval_ad2.core.records import Unscored
from lmms_eval_ad2.judge import verdict
from lmms_eval_ad2.judge.base import JudgeItem, JudgeRating, new_usage
from lmms_eval_ad2.judge.rubrics import Message, Rubric
from lmms_eval_ad2.llm import session
from lmms_eval_ad2.llm.cache import ReplyCache, key_of
from lmms_eval_ad2.llm.client import ChatReply, RequestFailure
from lmms_eval_ad2.llm.http_address import EndpointConfig
from lmms_eval_ad2.llm.request_body import JPEG_QUALITY, DataUrlImage
from lmms_eval_ad2.llm.settings import EndpointSampling, TokenPrice, one_of

OFFICIAL, SEEING = " (official CODA-LM wording)", " (sees the images)"  # at the end of the label
NO_IMAGE = "no_image"
IMAGES_AT_ONCE = 128  # items whose pictures are in memory together


@dataclass(frozen=True, slots=True)
class _Request:
    key: str
    payload: Mapping[str, Any]
    rubric: Rubric


class LLMJudge:
    """A judge that uses an OpenAI-compatible endpoint. `rubrics` by name; `cache` keeps replies between runs."""

    def __init__(
        self, endpoint: EndpointConfig, sampling: EndpointSampling, rubrics: Mapping[str, Rubric],
        *, cache: Path | None = None, price: TokenPrice | None = None, repeats: int = 1, images: bool = False,
    ) -> None:  # fmt: skip
        self.official_wording = any(rubric.official for rubric in rubrics.values())
        self.label = f"openai:{sampling.model}" + (OFFICIAL if self.official_wording else SEEING if images else "")
        self.usage = new_usage()
        self.endpoint, self.sampling, self.rubrics, self.price = endpoint, sampling, rubrics, price
        self.repeats, self.images = repeats, images
        self._cache_path = cache
        self._cache: ReplyCache | None = None
        self._served: set[str] = set()
        self._openings: dict[str, tuple[list[Message], str]] = {}

    def rate(self, items: Sequence[JudgeItem], *, progress: bool = True) -> list[JudgeRating | Unscored]:
        """See Judge.rate. Raises Ad2Error for an unknown rubric, and if the endpoint refuses every request."""
        if self.images and len(items) > IMAGES_AT_ONCE:
            parts = [items[i : i + IMAGES_AT_ONCE] for i in range(0, len(items), IMAGES_AT_ONCE)]
            return [rating for part in parts for rating in self.rate(part, progress=progress)]
        requests = self._requests(items)
        payloads = {r.key: r.payload for r in requests if isinstance(r, _Request)}
        rubric_of = {r.key: r.rubric for r in requests if isinstance(r, _Request)}
        outcomes = self._request_all(payloads, rubric_of, progress)
        marks = {key: self._mark(outcome, rubric_of[key]) for key, outcome in outcomes.items()}
        return [
            _for_item(marks[r.key], outcomes[r.key], item) if isinstance(r, _Request) else r
            for item, r in zip(items, requests, strict=True)
        ]

    def unsent(self, items: Sequence[JudgeItem]) -> list[tuple[str, Mapping[str, Any]]]:
        """Key and body of the requests whose reply is not in the cache; `rate` sends those with equal keys once."""
        requests = [r for r in self._requests(items) if isinstance(r, _Request)]
        if self._cache is None and self._cache_path is not None and self._cache_path.exists():
            self._cache = ReplyCache(self._cache_path)
        cached = self._cache.get_many({r.key for r in requests}) if self._cache else {}
        return [(r.key, r.payload) for r in requests if r.key not in cached]

    def _requests(self, items: Sequence[JudgeItem]) -> list[_Request | Unscored]:
        """One per item. Neighbours with the same images (texts of a record, their repetitions) load them once."""
        found: list[_Request | Unscored] = []
        for load, group in groupby(items, key=lambda item: item.images):
            shown = _loaded(load) if self.images else ()
            found += [self._request(item, shown) for item in group]
        return found

    def _request(self, item: JudgeItem, shown: Sequence[DataUrlImage] | str) -> _Request | Unscored:
        """`shown`: the item's images, or why there are none."""
        name = one_of(item.rubric, self.rubrics, "rubric")
        rubric = self.rubrics[name]
        if name not in self._openings:
            self._openings[name] = (rubric.opening(), rubric.sha256)
        if missing := rubric.missing(item):
            return missing
        opening, sha256 = self._openings[name]
        question = rubric.question(item)
        payload = self._sampling_of(rubric, item.repetition).payload([*opening, question])
        inputs = {"rubric": sha256, **({"repetition": item.repetition} if item.repetition else {}), **payload}
        if not self.images:
            return _Request(key_of(inputs), payload, rubric)
        if isinstance(shown, str):
            return Unscored(name, NO_IMAGE, shown)
        key = key_of({**inputs, "images": [image.sha256 for image in shown]})
        return _Request(key, {**payload, "messages": [*opening, _with_images(question, shown)]}, rubric)

    def _sampling_of(self, rubric: Rubric, repetition: int) -> EndpointSampling:
        """The parameters of a rubric's requests; those of the official scripts have no other than the temperature.

        Each repetition has its own seed: servers repeat a reply to an equal request with an equal seed.
        """
        if rubric.official is None:
            seed = self.sampling.seed
            return replace(self.sampling, seed=seed + repetition) if repetition and seed is not None else self.sampling
        return EndpointSampling(self.sampling.model, rubric.official.temperature, seed=None, max_tokens=None)

    def _request_all(
        self, payloads: Mapping[str, Mapping[str, Any]], rubric_of: Mapping[str, Rubric], progress: bool
    ) -> session.Outcomes:
        if self._cache is None and self._cache_path is not None:
            self._cache = ReplyCache(self._cache_path)
        tally = session.RequestUsage()
        try:
            outcomes = session.ask(
                payloads, self.endpoint, cache=self._cache, tally=tally, label=f"judge {self.label}", progress=progress,
                keep=lambda key, reply: not isinstance(self._mark(reply, rubric_of[key]), Unscored),
            )  # fmt: skip
        finally:
            self._count(tally)
        self._served |= {r.model for r in outcomes.values() if isinstance(r, ChatReply) and r.model}
        return outcomes

    def _mark(self, outcome: ChatReply | RequestFailure, rubric: Rubric) -> float | Unscored:
        if isinstance(outcome, RequestFailure):
            return Unscored(rubric.name, outcome.reason, outcome.detail)
        return verdict.read(outcome.text, outcome.finish_reason, rubric.reply, rubric.name)

    def _count(self, tally: session.RequestUsage) -> None:
        for name in ("requests", "retries", "cached", "failed", "prompt_tokens", "completion_tokens"):
            self.usage[name] += getattr(tally, name)
        if tally.unreported:
            self.usage["replies_without_token_counts"] = (
                self.usage.get("replies_without_token_counts", 0) + tally.unreported
            )
        if self.price:
            self.usage["cost"] = self.price.cost(self.usage["prompt_tokens"], self.usage["completion_tokens"])

    def describe(self) -> dict[str, Any]:
        """See Judge.describe. `served_as`: model names in the replies, which resolve an alias."""
        more: dict[str, Any] = {"wording": "official"} if self.official_wording else {}
        more |= {"repeats": self.repeats} if self.repeats > 1 else {}
        more |= {"images": f"JPEG, quality {JPEG_QUALITY}"} if self.images else {}
        return {
            "backend": "openai",
            "model": self.sampling.model,
            "base_url": self.endpoint.base_url,
            "temperature": self.sampling.temperature,
            "seed": self.sampling.seed,
            "max_tokens": self.sampling.max_tokens,
            "extra": dict(self.sampling.extra),
            "served_as": sorted(self._served),
            "rubrics": {
                name: {"version": r.version, "reply": r.reply, "sha256": r.sha256} for name, r in self.rubrics.items()
            },
            **more,
        }


def _loaded(load: Callable[[], Sequence[DataUrlImage]] | None) -> Sequence[DataUrlImage] | str:
    """The images, or why there are none."""
    try:
        return (load() if load else ()) or "the item has no images"
    except DataError as exc:
        return str(exc)


def _with_images(question: Message, images: Sequence[DataUrlImage]) -> Mapping[str, Any]:
    """The user turn with pictures before its text."""
    pictures = [{"type": "image_url", "image_url": {"url": image.url}} for image in images]
    return {**question, "content": [*pictures, {"type": "text", "text": question["content"]}]}


def _for_item(mark: float | Unscored, outcome: ChatReply | RequestFailure, item: JudgeItem) -> JudgeRating | Unscored:
    if isinstance(mark, Unscored):
        return mark
    return JudgeRating(item.id, mark, outcome.text if isinstance(outcome, ChatReply) else "")
