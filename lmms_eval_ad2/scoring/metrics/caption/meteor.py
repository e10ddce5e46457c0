"""METEOR 1.5 (Denkowski and Lavie 2014) by pycocoevalcap's wrapper; the Java process is always terminated.

METEOR has stems, synonyms and paraphrases of English. Chinese texts, tokenized into characters, are scored with its
language "other": only equal characters match, and the parameters are the language-independent ones (alpha 0.75, beta
1.4, gamma 0.7).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any, Literal

from lmms_eval_ad2.core.records import Lang
from lmms_eval_ad2.scoring.metrics.caption import java

MeteorLanguage = Literal["en", "other"]
LANGUAGES: dict[Lang, MeteorLanguage] = {"en": "en", "zh": "other"}

# The aligner's memory grows with the product of both lengths: one text of 12,000 words ends it for the whole set.
LONGEST = 2000  # words; longer texts are cut
_SEPARATOR = "|||"  # field separator of METEOR's line protocol


def scores(
    references: Sequence[Sequence[str]], candidates: Sequence[str], timeout_s: float, language: MeteorLanguage = "en"
) -> tuple[float, Sequence[float]]:
    """METEOR of the set (pooled counts) and of each pair, 0..1; raises java.JavaError.

    `references` and `candidates`: tokens joined by spaces; words beyond the first `LONGEST` are ignored.
    """
    java.find()
    gts = {i: [_plain(text) for text in refs] for i, refs in enumerate(references)}
    res = {i: [_plain(text)] for i, text in enumerate(candidates)}
    try:
        program = _start(language)
    except OSError as exc:
        raise java.JavaError("java_failed", f"METEOR could not be started: {exc}") from exc
    expired = threading.Event()
    # The wrapper reads without a time limit: killing the program ends the read.
    watchdog = threading.Timer(timeout_s, _expire, (expired, program))
    watchdog.daemon = True
    watchdog.start()
    try:
        return program.compute_score(gts, res)
    except (ValueError, OSError) as exc:
        why = f"did not finish within {timeout_s:g} s" if expired.is_set() else f"broke its protocol: {exc}"
        raise java.JavaError("java_failed", f"METEOR {why}") from exc
    finally:
        watchdog.cancel()
        _close(program)


def cut_note(references: Sequence[Sequence[str]], candidates: Sequence[str]) -> str:
    """A note with the number of texts that are cut, or "" if there is none."""
    texts = [*candidates, *(text for refs in references for text in refs)]
    n = sum(text.count(" ") >= LONGEST for text in texts)
    return f"{n} texts were cut to {LONGEST} words" if n else ""


def _start(language: MeteorLanguage) -> Any:
    """Start METEOR. The wrapper's own command is English, with a normalizer that the language "other" does not have."""
    from pycocoevalcap.meteor import meteor

    if language == "en":
        return meteor.Meteor()
    program = meteor.Meteor.__new__(meteor.Meteor)
    program.meteor_cmd = ["-jar", "-Xmx2G", meteor.METEOR_JAR, "-", "-", "-stdio", "-l", language]
    program.meteor_p = java.start(program.meteor_cmd, java.package_file(meteor, meteor.METEOR_JAR).parent)
    program.lock = threading.Lock()
    return program


def _expire(expired: threading.Event, program: Any) -> None:
    expired.set()
    program.meteor_p.kill()


def _plain(text: str) -> str:
    # Repeated: one pass can leave another separator behind.
    while _SEPARATOR in text:
        text = text.replace(_SEPARATOR, " ")
    return " ".join(text.split()[:LONGEST])


def _close(program: Any) -> None:
    """End the Java process, close its pipes and release the wrapper's lock, on which __del__ would block forever."""
    process = program.meteor_p
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            pipe.close()
    process.wait()
    if program.lock.locked():
        program.lock.release()
