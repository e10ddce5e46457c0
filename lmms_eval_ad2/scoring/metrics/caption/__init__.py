"""Caption metrics over a set: BLEU-1..4, METEOR, ROUGE-L, CIDEr, SPICE, numerically equal to pycocoevalcap.

Use `caption_scores`. A metric whose tool is missing (Java, SPICE's models) is `Unscored` with the remedy, never an
exception and never 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lmms_eval_ad2.core.errors import Ad2Error, DataError, require
from lmms_eval_ad2.core.records import Lang, Unscored
from lmms_eval_ad2.scoring.metrics.caption import meteor, ngram, spice
from lmms_eval_ad2.scoring.metrics.caption.java import JavaError
from lmms_eval_ad2.scoring.metrics.caption.tokens import TOKENIZERS, TokenizerName, is_foreign, one_line, tokenize

__all__ = [
    "CAPTION_METRICS",
    "DEFAULT_METRICS",
    "TOKENIZERS",
    "CorpusScore",
    "TokenizerName",
    "caption_scores",
    "in_language",
]

BLEUS = ("bleu_1", "bleu_2", "bleu_3", "bleu_4")
CAPTION_METRICS = (*BLEUS, "meteor", "rouge_l", "cider", "spice")
DEFAULT_METRICS = (*BLEUS, "rouge_l", "cider")
_METEOR_OTHER = 'language "other" for Chinese texts: equal characters match, no stems or synonyms'


@dataclass(frozen=True, slots=True)
class CorpusScore:
    """A metric over a set. `value` and `per_item` are fractions 0..1, for CIDEr 0..10.

    For BLEU and METEOR, `value` pools the counts of the set (it is not the mean of `per_item`); for ROUGE-L, CIDEr and
    SPICE it is the mean. `tokenizer` is "ptb", "plain", or "spice" (its own parser). `note`: METEOR's language if it is
    not English, and texts that were cut (METEOR, very long texts).
    """

    metric: str
    value: float
    per_item: Mapping[str, float] = field(default_factory=dict)
    tokenizer: str = "ptb"
    note: str = ""


@dataclass(frozen=True, slots=True)
class CaptionPairs:
    """Ids in order, with the texts (or tokens) of their references and candidates."""

    ids: tuple[str, ...]
    references: list[list[str]]
    candidates: list[str]


Result = dict[str, CorpusScore | Unscored]


def caption_scores(
    references: Mapping[str, Sequence[str]],
    candidates: Mapping[str, str],
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    tokenizer: TokenizerName = "ptb",
    lang: Lang = "en",
    timeout_s: float = 1800.0,
) -> Result:
    """Score each candidate against its references (same ids on both sides); results are in the order of `metrics`.

    `tokenizer`: "ptb" is pycocoevalcap's (Java); "plain" is a regular expression (see `tokens`) and needs no Java. One
    never replaces the other silently. `lang` "zh" first puts spaces around CJK characters, so that n-grams consist of
    characters; METEOR then uses its language "other", and SPICE, which parses English only, is Unscored. Texts that are
    not Chinese do not belong into a Chinese set: see `in_language`. `timeout_s` limits each Java process. An empty
    candidate is scored as in pycocoevalcap (docs/drivelm.md). CIDEr's document frequencies come from the set itself, so
    over a single pair it is 0.

    Raises Ad2Error for an unknown metric or tokenizer; DataError if the ids differ, a value is not a string, or an id
    has no reference; MissingExtra without pycocoevalcap. Definitions: Papineni 2002 (BLEU), Lin 2004 (ROUGE), Denkowski
    2014 (METEOR), Vedantam 2015 (CIDEr), Anderson 2016 (SPICE).
    """
    _check_names(metrics, tokenizer)
    raw = _checked(references, candidates)
    if not raw.ids:
        return {name: Unscored(name, "no_items", "there is no pair to score") for name in metrics}
    require("pycocoevalcap", "caption metrics")
    result: Result = {}
    if set(metrics) - {"spice"}:
        result |= _over_tokens(raw, [name for name in metrics if name != "spice"], tokenizer, lang, timeout_s)
    if "spice" in metrics:
        result["spice"] = _spice(raw, lang, timeout_s)
    return {name: result[name] for name in metrics}


def in_language(references: Mapping[str, Sequence[str]], candidates: Mapping[str, str], lang: Lang) -> set[str]:
    """The ids of the pairs that n-gram metrics can compare: all, or for a Chinese set those whose texts are Chinese.

    An answer in English has no n-gram in common with a Chinese reference, whatever it says.
    """
    pairs = {key: (text, *references[key]) for key, text in candidates.items()}
    return {key for key, texts in pairs.items() if not any(is_foreign(text, lang) for text in texts)}


def _spice(raw: CaptionPairs, lang: Lang, timeout_s: float) -> CorpusScore | Unscored:
    if lang != "en":
        return Unscored("spice", "english_only", "SPICE parses English only; Chinese texts are not scored")
    run = functools.partial(spice.scores, *_clean(raw), timeout_s)
    return _java_metric("spice", "spice", raw.ids, run)


def _over_tokens(
    raw: CaptionPairs, metrics: Sequence[str], tokenizer: TokenizerName, lang: Lang, timeout_s: float
) -> Result:
    """The metrics that compare tokens: all except SPICE."""
    try:
        flat = [text for refs in raw.references for text in refs]
        words = iter(tokenize(flat, tokenizer, lang, timeout_s))
        references = [[next(words) for _ in refs] for refs in raw.references]
        cut = CaptionPairs(raw.ids, references, tokenize(raw.candidates, tokenizer, lang, timeout_s))
    except JavaError as exc:
        hint = ' Or pass tokenizer="plain", which needs no Java.' if exc.reason == "java_missing" else ""
        return {name: Unscored(name, exc.reason, exc.detail + hint) for name in metrics}
    result: Result = {}
    bleu = ngram.bleu(cut.references, cut.candidates) if set(metrics) & set(BLEUS) else {}
    for name in metrics:
        if name in bleu:
            result[name] = _corpus(name, tokenizer, cut.ids, *bleu[name])
        elif name == "rouge_l":
            result[name] = _corpus(name, tokenizer, cut.ids, *ngram.rouge_l(cut.references, cut.candidates))
        elif name == "cider":
            result[name] = _cider(cut, tokenizer)
        elif name == "meteor":
            language = meteor.LANGUAGES[lang]
            run = functools.partial(meteor.scores, cut.references, cut.candidates, timeout_s, language)
            score = _java_metric(name, tokenizer, cut.ids, run)
            notes = [_METEOR_OTHER * (language == "other"), meteor.cut_note(cut.references, cut.candidates)]
            note = "; ".join(filter(None, notes))
            result[name] = replace(score, note=note) if isinstance(score, CorpusScore) else score
    return result


def _cider(cut: CaptionPairs, tokenizer: str) -> CorpusScore | Unscored:
    if not any(text for refs in cut.references for text in refs):
        return Unscored("cider", "no_reference_words", "no reference has a word, so CIDEr has no weights")
    return _corpus("cider", tokenizer, cut.ids, *ngram.cider(cut.references, cut.candidates))


def _java_metric(
    name: str, tokenizer: str, ids: Sequence[str], run: Callable[[], tuple[float, Sequence[float]]]
) -> CorpusScore | Unscored:
    try:
        return _corpus(name, tokenizer, ids, *run())
    except JavaError as exc:
        return Unscored(name, exc.reason, exc.detail)


def _corpus(name: str, tokenizer: str, ids: Sequence[str], value: float, items: Sequence[float]) -> CorpusScore:
    per_item = {key: float(item) for key, item in zip(ids, items, strict=True)}
    return CorpusScore(name, float(value), per_item, tokenizer)


def _clean(raw: CaptionPairs) -> tuple[list[list[str]], list[str]]:
    return [[one_line(text) for text in refs] for refs in raw.references], [one_line(text) for text in raw.candidates]


def _check_names(metrics: Sequence[str], tokenizer: str) -> None:
    for name in metrics:
        if name not in CAPTION_METRICS:
            raise Ad2Error(f"unknown caption metric {name!r}; known: {', '.join(CAPTION_METRICS)}")
    if tokenizer not in TOKENIZERS:
        raise Ad2Error(f"unknown tokenizer {tokenizer!r}; known: {', '.join(TOKENIZERS)}")


def _checked(references: Mapping[str, Sequence[str]], candidates: Mapping[str, str]) -> CaptionPairs:
    """The pairs in the order of `candidates`; DataError if the two sides do not match."""
    for key in references.keys() - candidates.keys():
        raise DataError("candidates", key, "candidate", "a candidate for each id that has references")
    for key, text in candidates.items():
        refs = references.get(key)
        if refs is None or isinstance(refs, str) or not refs:
            raise DataError("references", key, "references", "a list of at least one text", refs)
        for value in (text, *refs):
            if not isinstance(value, str):
                raise DataError("captions", key, "text", "a string", value)
    return CaptionPairs(tuple(candidates), [list(references[key]) for key in candidates], list(candidates.values()))
