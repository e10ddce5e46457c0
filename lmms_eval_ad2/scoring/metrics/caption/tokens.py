"""Tokenizers of the caption metrics. Untrusted text is first made safe for line protocols.

A tokenizer takes a list of texts and returns as many strings of tokens joined by single spaces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal

from lmms_eval_ad2.core.records import Lang
from lmms_eval_ad2.scoring.metrics.caption import java

TokenizerName = Literal["ptb", "plain"]
TOKENIZERS: tuple[TokenizerName, ...] = ("ptb", "plain")

# Control characters, line and paragraph separators can end a line in Java; surrogates cannot be encoded.
_BREAKS = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Chinese and Japanese characters that count as one word each (the ideographic blocks, kana).
_CJK = re.compile(
    "([\u2e80-\u2fdf\u3005\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
)
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:'[^\W\d_]+)?|_+")
_PTB_CLASS = "edu.stanford.nlp.process.PTBTokenizer"


def one_line(text: str) -> str:
    """`text` with a space for every character that could end a line or cannot be encoded."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(" " if unicodedata.category(char) in _BREAKS else char for char in text)


def space_cjk(text: str) -> str:
    """Put spaces around each CJK character; non-ASCII punctuation becomes a space (PTB drops ASCII punctuation)."""
    text = "".join(" " if ord(c) > 127 and unicodedata.category(c).startswith("P") else c for c in text)
    return _CJK.sub(r" \1 ", text)


def is_foreign(text: str, lang: Lang) -> bool:
    """Whether a text of a Chinese corpus is in another language: it has letters, and none of them is Chinese.

    Always False for other corpora, and for a text without letters (a number, an empty answer).
    """
    return lang == "zh" and not _CJK.search(text) and any(map(str.isalpha, text))


def tokenize(texts: Sequence[str], name: TokenizerName, lang: Lang, timeout_s: float = 600.0) -> list[str]:
    """Tokens of each text; raises java.JavaError if the PTB tokenizer cannot be run."""
    lines = [one_line(text) for text in texts]
    if lang == "zh":
        lines = [space_cjk(line) for line in lines]
    return _plain(lines) if name == "plain" else _ptb(lines, timeout_s)


def _ptb(lines: Sequence[str], timeout_s: float) -> list[str]:
    """The Stanford PTB tokenizer of pycocoevalcap: same jar, same flags, same punctuation removed.

    Not through pycocoevalcap's class, which writes into its own package folder, prints Java's standard error and does
    not detect missing output lines.
    """
    from pycocoevalcap.tokenizer import ptbtokenizer  # optional and slow to import; its presence is already checked

    if not lines:
        return []
    jar = java.package_file(ptbtokenizer, ptbtokenizer.STANFORD_CORENLP_3_4_1_JAR)
    command = ["-cp", str(jar), _PTB_CLASS, "-preserveLines", "-lowerCase", "-encoding", "UTF-8"]
    out = java.run(
        command, "".join(f"{line}\n" for line in lines).encode(), what="the PTB tokenizer", timeout_s=timeout_s
    ).decode()
    rows = out.removesuffix("\n").split("\n")
    if len(rows) != len(lines):
        raise java.JavaError("tokenizer_misaligned", f"the PTB tokenizer gave {len(rows)} lines for {len(lines)} texts")
    drop = frozenset(ptbtokenizer.PUNCTUATIONS)
    return [" ".join(word for word in row.rstrip().split(" ") if word not in drop) for row in rows]


def _plain(lines: Sequence[str]) -> list[str]:
    """Lower-case words and numbers: letters with at most one inner apostrophe, or digits with inner points and commas.

    Everything else separates tokens. The scores are close to those with PTB tokens, but not equal.
    """
    return [" ".join(_WORD.findall(line.lower())) for line in lines]
