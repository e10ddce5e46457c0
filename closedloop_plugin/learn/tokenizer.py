"""A tokenizer trained on the sentences of a training file, so that a question costs a few tokens.

Phrases that occur in many prompts are one token each ("added tokens"): sentences, sentences that always follow each
other, and the letters and texts of options, each for itself, so that a text is the same token under every letter. All
other text is byte-level byte-pair encoding whose merges may cross spaces; numbers are split into integer part and
decimals: "13.4" is "13" and ".4". Every text is decoded to the same bytes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

UNKNOWN, BEGIN, END, IMAGE, PAD = "<unk>", "<s>", "</s>", "<image>", "<pad>"
SPECIAL = (UNKNOWN, BEGIN, END, IMAGE, PAD)
# The prompt of LLaVA-1.5 as ms-swift's template llava1_5_hf writes it, so that both trainers see the same tokens.
USER, ASSISTANT = "USER: ", "\nASSISTANT:"
CHAT_TEMPLATE = (
    "{{ '<s>' }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ 'USER: ' }}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<image>\n' }}{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}{{ '\nASSISTANT:' }}"
    "{% else %}{{ message['content'] }}{{ '</s>' }}{% endif %}"
    "{% endfor %}"
)
SIZE = 3000  # tokens, at most
PHRASES = 1000  # of them phrases of prompts
BYTES = 256  # tokens of single bytes, which no tokenizer is without
SHORTEST = 4  # characters of such a phrase
CLAUSE = 8  # characters, at least, of a part of an answer that is one token too
SAMPLE = 20_000  # rows from which the tokens are learned, evenly spaced
SHARE = 5e-4  # of all prompts, at least, contain it
ALWAYS = 0.95  # two pieces are one phrase if one of them is beside the other in such a share of its places
_LETTER = r"\n\([A-Z]\) "  # of an option, on a line of its own
_PIECES = re.compile(
    rf"{_LETTER}|(?<={_LETTER})[^\n]+|\d+(?:\.\d+)?|(?:[^\d.:?!\n]|(?!{_LETTER})\n|[.:?!](?!\s|$))+[.:?!]?|[.:?!]"
)
_IS_LETTER = re.compile(_LETTER)
# A question about two things ("Is the van nearer than the person?") is no phrase, and no merge crosses the word before
# a thing: each pair of things is rare, so the parts have to be learned from all pairs.
_OF_TWO = re.compile(r" the [^.:?\n]* (?:of|than) the [^.:?\n]*\?")
_BEFORE_THING = r" the (?=[^.:?\n]*\?)"
# Boundaries that no merge crosses: numbers, and the parts of a manoeuvre. Decimals keep the punctuation after them, so
# that a point of a trajectory is four tokens.
_NUMBERS = r"\d+|\.\d+[,)\]\s(\[-]*"
_CLAUSES = r" and | because "
_CLAUSE_STARTS = re.compile(rf"(?={_CLAUSES})")


def train_tokenizer(prompts: Sequence[str], answers: Sequence[str], size: int = SIZE) -> PreTrainedTokenizerFast:
    """A tokenizer of at most `size` tokens with the chat template above. Deterministic."""
    from transformers import PreTrainedTokenizerFast

    prompts, answers = spaced(prompts), spaced(answers)
    found = [pieces(text) for text in prompts]
    phrases = list(dict.fromkeys([USER, ASSISTANT, *common_phrases(found), *common_clauses(answers)]))
    phrases = phrases[: size - BYTES - len(SPECIAL)]
    bpe = _bpe(found, answers, phrases, size)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, unk_token=UNKNOWN, bos_token=BEGIN, eos_token=END, pad_token=PAD,
        extra_special_tokens={"image_token": IMAGE}, model_max_length=2048, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def pieces(text: str) -> list[str]:
    """`text` split into letters and texts of options, numbers and sentences. White space begins the later sentence."""
    return _PIECES.findall(text)


def common_phrases(prompts: Sequence[list[str]], most: int = PHRASES) -> list[str]:
    """The phrases that occur in at least SHARE of all prompts. `prompts`: pieces; those of a phrase are joined."""
    while _join(prompts):
        pass
    return _frequent(({piece for piece in found if _may_be_phrase(piece)} for found in prompts), most)


def _may_be_phrase(piece: str) -> bool:
    return len(piece) >= SHORTEST and not _is_number(piece) and not _OF_TWO.search(piece)


def _join(prompts: Sequence[list[str]]) -> bool:
    """Join neighbours that are one phrase, in place; whether there were any."""
    single = Counter(piece for found in prompts for piece in found)
    double = Counter(pair for found in prompts for pair in _neighbours(found) if pair)
    least = max(2, SHARE * len(prompts))
    joined = {pair for pair, n in double.items() if n >= least and n >= ALWAYS * _places(*pair, single)}
    for found in prompts:
        made, just_joined = found[:1], False
        for piece, pair in zip(found[1:], _neighbours(found), strict=True):
            just_joined = pair in joined and not just_joined
            if just_joined:
                made[-1] += piece
            else:
                made.append(piece)
        found[:] = made
    return bool(joined)


def _neighbours(found: Sequence[str]) -> list[tuple[str, str] | None]:
    """Each piece after the first, with the one before it; None at pieces that stay alone: letters and texts of options,
    questions about two things."""
    letters = [bool(_IS_LETTER.fullmatch(piece)) for piece in found]
    texts = [False, *letters]
    alone = [texts[i] or letters[i] or bool(_OF_TWO.search(piece)) for i, piece in enumerate(found)]
    return [None if any(alone[i : i + 2]) else (found[i], found[i + 1]) for i in range(len(found) - 1)]


def _places(one: str, other: str, single: Mapping[str, int]) -> float:
    """In how many places the two could be beside each other. A number that varies would be in few: only the places of
    the phrase beside it count."""
    return min((single[piece] for piece in (one, other) if not _is_number(piece)), default=math.inf)


def _is_number(piece: str) -> bool:
    return piece[0].isdigit() and piece[-1].isdigit()


def common_clauses(answers: Sequence[str], most: int = PHRASES) -> list[str]:
    """The parts of answers, such as " and go straight.", that occur in at least SHARE of all answers."""
    parts = (set(_CLAUSE_STARTS.split(text)) for text in answers)
    return _frequent(({p for p in found if len(p) >= CLAUSE and not any(map(str.isdigit, p))} for found in parts), most)


def spaced(texts: Sequence[str], most: int = SAMPLE) -> list[str]:
    """At most `most` texts, evenly spaced."""
    step = max(1, -(-len(texts) // most))
    # Frames have the same number of rows each; an odd step does not select the same question of every frame.
    return list(texts[:: step | 1])


def _frequent(found: Iterable[set[str]], most: int) -> list[str]:
    """The texts that are in at least SHARE of the sets, the most frequent first. Only ASCII: the decoder of byte-level
    tokens takes some other characters for bytes."""
    counts: Counter[str] = Counter()
    total = 0
    for total, texts in enumerate(found, 1):  # noqa: B007
        counts.update(text for text in texts if text.isascii())
    least = max(2, SHARE * total)
    return sorted((text for text, n in counts.items() if n >= least), key=lambda text: (-counts[text], text))[:most]


def _bpe(prompts: Sequence[Sequence[str]], answers: Sequence[str], phrases: Sequence[str], size: int) -> Tokenizer:
    """Trained on the answers, on the rest of the prompts, and on all numbers below 150 with one or two decimals."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_NUMBERS), "isolated"),
            pre_tokenizers.Split(Regex(_CLAUSES), "merged_with_next"),
            pre_tokenizers.Split(Regex(_BEFORE_THING), "merged_with_previous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size - len(phrases), min_frequency=2, show_progress=False, max_token_length=200,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL],
    )  # fmt: skip
    tokenizer.train_from_iterator(_corpus(prompts, answers, set(phrases)), trainer)
    # The longest one that fits is taken, so the order is of no importance to the result.
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in phrases])
    return tokenizer


def _corpus(prompts: Iterable[Sequence[str]], answers: Iterable[str], phrases: set[str]) -> Iterator[str]:
    yield from (str(number) for number in range(150) for _ in range(2))
    yield from (f".{decimals}" for digits in (1, 2) for decimals in _decimals(digits) for _ in range(2))
    for found in prompts:
        yield from (piece for piece in found if piece not in phrases)
    yield from answers


def _decimals(digits: int) -> Iterator[str]:
    yield from (f"{number:0{digits}d}" for number in range(10**digits))
