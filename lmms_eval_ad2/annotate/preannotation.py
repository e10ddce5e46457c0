"""Drafts by a model, from an endpoint or a file, appended to DIR/pre.jsonl as they arrive.

    {"id": record, "model": label, "answer": "..." | null, "steps": [[name, question, answer], ...] | null,
     "objects": [[category, text], ...] | null, "notes": hash of the texts that a suggestion was drafted from}

A file of answers (`--pre FILE.jsonl`) has one object per line: `id`, and `answer` (or `raw`, as in a run's
samples/<task>.jsonl): a text, or for a chain a list of texts, one per step; `steps` as a list of {name, question,
answer}, `objects` as a list of {category, text}; `model` names the author.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lmms_eval_ad2.annotate import draft_prompts
from lmms_eval_ad2.annotate.actions import LONGEST, LONGEST_NAME, MOST
from lmms_eval_ad2.annotate.draft_prompts import SceneNote
from lmms_eval_ad2.annotate.folder import AnnotationFolder
from lmms_eval_ad2.annotate.record_images import data_url, rendered
from lmms_eval_ad2.annotate.text_pieces import DraftAnnotation, in_language
from lmms_eval_ad2.core.errors import Ad2Error, DataError
from lmms_eval_ad2.core.records import Record, VisualPrompt
from lmms_eval_ad2.data.releases import stream
from lmms_eval_ad2.data.releases.untrusted_row import UntrustedRow
from lmms_eval_ad2.llm.cache import ReplyCache, key_of
from lmms_eval_ad2.llm.client import ChatReply
from lmms_eval_ad2.llm.model import LanguageModel, read_model
from lmms_eval_ad2.llm.session import EndpointSession, run, together, workers_for
from lmms_eval_ad2.storage.journal import JournalFile, parse_object, read

FILE, CACHE = "pre.jsonl", "replies.sqlite"
LONGEST_SIDE = 1600  # pixels of an image sent to the model
BY_COORDS = " (by coordinates)"  # suffix of the model's name if the object was given by coordinates
Report = Callable[[str, DraftAnnotation | str], None]
NotesOf = Callable[[Record], Sequence[SceneNote]]


@dataclass(slots=True)
class DraftingSummary:
    """Counts of one run: drafts `written` now, `had` before, and records `without` a draft by reason code.

    renewed: of those written, suggestions whose scene or object texts have changed since their draft.
    """

    written: int = 0
    had: int = 0
    renewed: int = 0
    without: Counter[str] = field(default_factory=Counter)
    details: dict[str, str] = field(default_factory=dict)

    def line(self) -> str:
        text = f"drafts: {self.written} new, {self.had} from before"
        if self.renewed:
            text += f"; {self.renewed} suggestions again, from changed texts"
        if self.without:
            text += ", none for " + ", ".join(f"{n} ({code})" for code, n in self.without.most_common())
        return text


def load(folder: AnnotationFolder) -> dict[str, DraftAnnotation]:
    """Read the drafts by record id; the last one of a record counts. Raises DataError for an invalid line."""
    path = folder.path / FILE
    found = {}
    for line in read(path, lambda content: parse_object(content) if content.strip() else None):
        if line.value is None:
            continue
        row = UntrustedRow(line.value, path, line.number)
        answer = row.get("answer")
        if answer is not None and not (isinstance(answer, str) and len(answer) <= LONGEST):
            raise row.fail("answer", f"a text of at most {LONGEST:,} characters, or null", answer)
        steps, objects = (_tuples(row, name, width) for name, width in (("steps", 3), ("objects", 2)))
        made = (answer, steps, objects, row.string("notes", ""))
        found[row.string("id")] = DraftAnnotation(row.string("model"), *made)  # type: ignore[arg-type]
    return found


def _tuples(row: UntrustedRow, name: str, width: int) -> tuple[tuple[str, ...], ...] | None:
    if row.get(name) is None:
        return None
    values = row.listing(name, required=False)
    for value in values[: MOST + 1]:
        good = isinstance(value, list) and len(value) == width and all(isinstance(v, str) for v in value)
        if not good or len(value[0]) > LONGEST_NAME or max(map(len, value)) > LONGEST or len(values) > MOST:
            raise row.fail(name, f"at most {MOST} lists of {width} texts", value)
    return tuple(tuple(value) for value in values)


def fill(
    folder: AnnotationFolder, spec: str, reviewed: Container[str] = (), *, notes: NotesOf | None = None,
    coords: bool = False, progress: bool = True,
) -> DraftingSummary:  # fmt: skip
    """Write drafts for all records that have none yet, from `spec`: a JSONL file or a model (llm/model.py).

    `reviewed`: ids of records whose review has begun; they get no draft. `notes`: the texts from which a model drafts
    suggestions, after all other records; a suggestion whose notes have changed is drafted again. `coords`: give marked
    objects to the model by coordinates in the text. Each draft is on disk as soon as it arrives: an interrupted
    command can be repeated. Raises Ad2Error for an unreadable file or an unusable model.
    """
    had = load(folder)
    todo = [i for i, name in enumerate(folder.ids) if name not in had and name not in reviewed]
    summary = DraftingSummary(had=len(had))
    if begun := sum(name in reviewed and name not in had for name in folder.ids):
        summary.without["review_begun"] = begun
    path = Path(spec).expanduser()
    with JournalFile(folder.path / FILE) as journal:

        def report(name: str, found: DraftAnnotation | str, detail: str = "") -> None:
            if isinstance(found, str):
                summary.without[found] += 1
                summary.details.setdefault(found, detail)
                return
            journal.append(json.dumps({"id": name, **asdict(found)}, ensure_ascii=False).encode("utf-8", "replace"))
            summary.written += 1

        if path.suffix in (".jsonl", ".json") or (path.is_file() and path.suffix not in (".yaml", ".yml")):
            _from_file(folder, path, todo, report)
        else:
            model = read_model(spec, owner="--pre", max_tokens=2048)
            drafter = _Drafter(folder, model, coords)
            first, later = _passes(folder, todo, had, reviewed)
            run(lambda: drafter.draft([(i, ()) for i in first], report, progress))
            known = [(i, notes(folder.record(i)) if notes else ()) for i in later]
            stale = [(i, texts) for i, texts in known if _is_stale(had.get(folder.ids[i]), texts)]
            summary.renewed = sum(folder.ids[i] in had for i, _ in stale)
            run(lambda: drafter.draft(stale, report, progress))
    return summary


def _passes(
    folder: AnnotationFolder, todo: list[int], had: Mapping[str, DraftAnnotation], reviewed: Container[str]
) -> tuple[list[int], list[int]]:
    """The records to draft first, and the suggestions: those without a draft, or with one made from notes."""
    again = [i for i, name in enumerate(folder.ids) if name in had and had[name].notes and name not in reviewed]
    later = {i for i in todo if folder.record(i).task == draft_prompts.SUGGESTION}
    return [i for i in todo if i not in later], sorted({*later, *again})


def _is_stale(draft: DraftAnnotation | None, notes: Sequence[SceneNote]) -> bool:
    return draft is None or draft.notes != draft_prompts.digest(notes)


def _from_file(folder: AnnotationFolder, path: Path, todo: list[int], report: Report) -> None:
    wanted = {folder.ids[i]: i for i in todo}
    seen: set[str] = set()
    for item in stream.rows(path):
        if isinstance(item, DataError):
            raise item
        row = UntrustedRow(item[1], path, item[0])
        name = row.string("id")
        if name not in folder.index:
            report(name, "unknown_id")
        elif name in wanted and name not in seen:
            seen.add(name)
            record = folder.record(wanted[name])
            report(name, _draft(row, record, folder) if draft_prompts.askable(record) else "has_options")
    for name in wanted:
        if name not in seen:
            report(name, "not_in_file")


def _draft(row: UntrustedRow, record: Record, folder: AnnotationFolder) -> DraftAnnotation | str:
    """Return the draft of a line, or a reason code; raises DataError if it does not fit its record."""
    model = row.string("model", "file")[:LONGEST_NAME]
    answer = row.get("answer") if row.get("answer") is not None else row.get("raw")
    steps = tuple((s.string("name"), s.string("question"), s.string("answer", "")) for s in row.inners("steps")) or None
    objects = tuple((o.string("category"), o.string("text")) for o in row.inners("objects")) or None
    if isinstance(answer, list):
        if record.form != "chain" or len(answer) != len(record.steps) or not all(isinstance(s, str) for s in answer):
            raise row.fail("answer", f"a text, or for a chain one text per step ({len(record.steps)} here)", answer)
        lang = folder.about.lang
        steps = tuple(
            (s.name.get(lang), in_language(s.question, lang), t) for s, t in zip(record.steps, answer, strict=True)
        )
        answer = None
    if answer is not None and not isinstance(answer, str):
        raise row.fail("answer", "a text, or a list of texts", answer)
    if answer is not None and record.form == "chain":
        return draft_prompts.read(record, folder.about.lang, model, answer)
    if answer is None and steps is None and objects is None:
        return "empty"
    texts = [answer or "", *(t for group in (*(steps or ()), *(objects or ())) for t in group)]
    if max(map(len, texts)) > LONGEST or len(steps or ()) > MOST or len(objects or ()) > MOST:
        raise row.fail(
            "answer", f"texts of at most {LONGEST:,} characters, {MOST} steps or objects", max(map(len, texts))
        )
    return DraftAnnotation(model, answer, steps, objects)


class _Drafter:
    """Requests drafts from a model, as many at once as the endpoint allows; each is written when it arrives."""

    def __init__(self, folder: AnnotationFolder, model: LanguageModel, coords: bool) -> None:
        self._folder, self._model, self._coords = folder, model, coords

    async def draft(self, todo: Sequence[tuple[int, Sequence[SceneNote]]], report: Any, progress: bool) -> None:
        """Send one request per record number, with its notes."""
        if not todo:
            return
        endpoint, queue = self._model.endpoint, iter(todo)
        with tqdm(total=len(todo), desc=f"drafts {self._model.label}", unit="item", disable=not progress) as bar:
            async with EndpointSession(endpoint, ReplyCache(self._folder.path / CACHE)) as session:

                async def work() -> None:
                    for number, notes in queue:
                        record = await asyncio.to_thread(self._folder.record, number)
                        report(record.id, *await self._one(session, record, notes))
                        bar.update()

                await together(work() for _ in range(workers_for(endpoint, len(todo))))

    async def _one(
        self, session: EndpointSession, record: Record, notes: Sequence[SceneNote]
    ) -> tuple[DraftAnnotation | str, str]:
        lang, model = self._folder.about.lang, self._model
        if not draft_prompts.askable(record):
            return "has_options", ""
        coords = self._coords and bool(record.mark.coords)
        try:
            shown = replace(record, mark=VisualPrompt()) if coords else record
            urls = await asyncio.to_thread(_urls, shown, self._folder.about.image_root)
            text = draft_prompts.question(record, lang, notes, coords=coords)
        except Ad2Error as exc:  # only this record is affected
            return "no_picture", str(exc)
        parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        messages: list[dict[str, Any]] = [{"role": "system", "content": draft_prompts.SYSTEM},
                    {"role": "user", "content": [*parts, {"type": "text", "text": text}]}]  # fmt: skip
        body = model.payload(messages, draft_prompts.reply_form(record))
        pictures = [hashlib.sha256(url.encode()).hexdigest() for url in urls]
        key = key_of({**model.describe(), "system": draft_prompts.SYSTEM, "text": text, "pictures": pictures})
        label = model.label + BY_COORDS * coords

        def read_draft(reply: str) -> DraftAnnotation | str:
            return draft_prompts.read(record, lang, label, reply)

        outcome = await session.ask(
            body, key=key, accept=lambda reply: isinstance(read_draft(reply.text), DraftAnnotation)
        )
        if not isinstance(outcome, ChatReply):
            return outcome.reason, outcome.detail
        found = read_draft(outcome.text)
        if isinstance(found, DraftAnnotation) and record.task == draft_prompts.SUGGESTION:
            found = replace(found, notes=draft_prompts.digest(notes))
        return found, outcome.text[:200]


def _urls(record: Record, root: Path) -> list[str]:
    return [data_url(image, LONGEST_SIDE) for image in rendered(record, root)]
