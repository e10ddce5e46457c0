"""Lists of letters that are no verdict: an enumeration of the options, and the lower places of a ranking.

"A. B. C. D." names the options and decides for none. "B (second choice: A)" and "B > A > C" decide for the first place.
"""

from __future__ import annotations

import re

_LETTER = r"(?:[Oo]ption |[Cc]hoice |选项)?[(\[{\"'<]{0,2}(?P<letter>[A-H])[)\]}\"'>]{0,2}"
_NEXT = _LETTER.replace("(?P<letter>[A-H])", "[A-H]")
_BETWEEN = r"(?:[\s.,:;、/|&-]{0,4}(?:\b(?:and|or)\b|和|或|与|及)?[\s.,:;、/|&-]{0,4})"
# Three or more letters in a row, with nothing said of them: not "A, C and D are wrong".
_ENUMERATION = re.compile(
    rf"(?P<before>\A\W*|[\n:(]\s?|\b(?:are|is|among|between|from|of|options?|choices?|letters"
    rf"|answers?)\b[\s:]*|(?:有|是|为|选项|答案)[\s:]*)"
    rf"(?P<run>{_NEXT}(?:{_BETWEEN}{_NEXT}(?![A-Za-z0-9])){{2,}}+)(?=\s?(?:[.,;:!)|\]}}*]|\n|\Z))",
    re.IGNORECASE,
)
_ORDERED = re.compile(
    r"\brank(?:ed|ing|s)?\b|\bin (?:descending )?order\b|\bmost (?:likely |probable |plausible )?to least\b"
    r"|\blikelihood\b"
    r"|排序|排名|排列|顺序|从高到低|从优到劣|最可能到最不可能|最好到最差|依次",
    re.IGNORECASE,
)
_ASCENDING = re.compile(
    r"\bleast (?:likely |probable |plausible )?to most\b|\bascending\b|从低到高|升序", re.IGNORECASE
)
_FIRST_OF_ORDER = re.compile(
    rf"\A\W*(?:[^\n:]{{0,60}}?(?:\bis\b|:|是|为) ?)?{_LETTER}(?:\s?(?:>{{1,3}}|[≻»])\s?{_NEXT})+\W*\Z"
)
_REMARKED = re.compile(
    rf"\A\W*(?:[^\n:]{{0,40}}: ?)?{_LETTER} ?\((?P<remark>[^()\n]{{1,30}})\)"
    rf"(?:[,;\s]{{1,3}}(?:and |or )?{_NEXT} ?\([^()\n]{{1,30}}\))+\W*\Z"
)
_BEST_REMARK = re.compile(r"\b(?:most|high(?:est)?|best|first|1st|primary|top)\b|最|首选|高", re.IGNORECASE)
_NUMBERED_FIRST = re.compile(rf"(?m)^\W*(?:1[.):、]|1st:?|①)\s?{_LETTER}(?![A-Za-z0-9])")

# "1. B 2. A": answers to several questions, or a ranking that is not called one.
_NUMBERED = re.compile(
    rf"(?:\A|\n)\W{{0,4}}\d[.):、]\s?{_NEXT}(?:[\s,;.]{{1,4}}\d[.):、]\s?{_NEXT}(?![A-Za-z0-9]))+(?=\s?(?:[.,;!]|\n|\Z))"
)
# "A) Turn left, B) Go straight": offered, not chosen.
OFFERED = re.compile(
    r"\b(?:possible|available|offered|listed|given|following|candidate) (?:answers|options|choices)\b[^.;\n]*\Z"
    r"|(?:\be\.g\.|\bfor (?:example|instance)\b|\bsuch as|\bformat\b|例如|比如|格式)\W*"
    r"(?:answer\W*|答案\W*|选择?\W*)?\Z"
    r"|(?:\A|[.;!?\n,]\s?)to (?:answer|reply|respond|say|choose|pick|select|justify|go with)(?: with)? \W*"
    r"(?:option )?\W*\Z"
)

_PLACE = r"(?:second|2nd|third|3rd|fourth|4th|next|secondary|tertiary)"
_RANK = r"(?:[- ](?:best|choice|place|guess|pick|preference|(?:most )?likely|most probable))"
_OTHER = r"(?:(?:backup|fallback|alternative(?:ly)?|runner-?up|plan b)(?: (?:choice|option|answer|guess))?)"
_LOWER_PLACE = re.compile(
    rf"\b(?:(?:my |the )?(?:{_PLACE}{_RANK}+(?: (?:choice|option|answer|guess))?|{_OTHER})(?: (?:is|was"
    rf"|would be|might be|being))?[\s:,]*"
    rf"|(?:second|third|fourth|2nd|3rd|4th|secondary):? ?){_NEXT}(?![A-Za-z0-9])"
    rf"|(?<=[A-H][,;)\s])[,;\s]{{0,2}}(?:and )?(?:then|followed by|next)[\s:]+{_NEXT}(?![A-Za-z0-9])"
    rf"|\b{_NEXT},? (?:(?:is|as|would be|was|being|comes?) )?(?:my |the |a |in )?(?:(?i:{_PLACE}){_RANK}*"
    rf"|{_OTHER})(?=\s?(?:[.,;)]|\Z))"
    rf"|(?:其次|次选|备选|候选|次之|第[二三四234](?:选择|可能|名"
    rf"|位)?)(?:的)?(?:选项)?(?:选择)?(?:可能)?(?:才?是|为|选)?[\s:]*{_NEXT}(?![A-Za-z0-9])"
    rf"|{_NEXT}(?:是|为|作为)?(?:备选|次选|其次|次之|第[二三四])(?=\s?(?:[,.;)]|\Z))",
    re.IGNORECASE,
)


def without_numbered(text: str) -> str:
    """Plain text with blanks for several numbered letters: "1. A 2. C"."""
    return _NUMBERED.sub(
        lambda found: (
            "\n" + " " * (len(found.group()) - 1) if len(set(re.findall("[A-H]", found.group()))) > 1 else found.group()
        ),
        text,
    )


def without_enumeration(text: str) -> str:
    """Plain text with blanks for three or more letters in a row, of which it says nothing else."""

    def blank(found: re.Match[str]) -> str:
        places = list(re.finditer("(?i)(?<![a-z])[a-h](?![a-z])", found["run"]))
        repeated = next(
            (i for i in range(len(places)) if places[i].group() in {p.group() for p in places[:i]}), len(places)
        )
        stop = places[repeated - 1].end()  # "(A, B, C or D): D"
        return found["before"] + " " * stop + found["run"][stop:]

    return _ENUMERATION.sub(blank, text)


def without_lower_places(text: str) -> str:
    """Plain text without the lower places of a ranking: "(second choice: A)", "followed by A", 其次A."""
    rest = _LOWER_PLACE.sub(" ", text)
    return text if rest == text else re.sub(r"[(\[]\s*(?:[)\]]|(?=[.!]?\s*\Z))|[\s,;]+(?=[.!]?\s*\Z)", "", rest)


def first_of_ranking(text: str) -> str | None:
    """The first letter of plain text that only puts letters in an order from best to worst; None for other text."""
    if _ASCENDING.search(text):
        return None
    if order := _FIRST_OF_ORDER.match(text):
        return order["letter"].upper()
    if (remarked := _REMARKED.match(text)) and _BEST_REMARK.search(remarked["remark"]):  # "D (most likely), B (less)"
        return remarked["letter"].upper()
    ranked = _ORDERED.search(text)
    if not ranked:
        return None
    rest = text[: ranked.start()] + text[ranked.end() :]
    run = _ENUMERATION.search(rest)
    first = re.match(_LETTER, run["run"]) if run else _NUMBERED_FIRST.search(rest)
    alone = run is None or not re.search(r"(?<![A-Za-z])[A-H](?![A-Za-z])", rest[: run.start()] + rest[run.end() :])
    return first["letter"].upper() if first and alone else None
