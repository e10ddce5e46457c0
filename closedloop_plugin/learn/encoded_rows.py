"""EncodedRows: a training file as tokens and pixels, and the batches of a training run.

A batch has one sequence per picture: the picture's tokens, then several questions with their answers. Each of them sees
the picture and itself only, at the positions that it has when it is asked alone:

    picture | question 1, answer 1 | question 2, answer 2
    0 .. p-1| p ..                 | p ..                      (positions)

So a picture is encoded once for all its questions, and the model is trained on what it will be asked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from closedloop_plugin.learn.model_folder import RESIZES_ONLY
from closedloop_plugin.learn.seen_grid import CHANNELS, FINE, KINDS, RARE, ShownBox, seen_grid
from closedloop_plugin.learn.tokenizer import END, IMAGE
from closedloop_plugin.learn.training_file import DRIVING, TrainingFile, TrainingTurn
from lmms_eval_ad2.core.errors import Ad2Error
from lmms_eval_ad2.storage.files import atomic_path
from lmms_eval_ad2.storage.image_files import open_image
from lmms_eval_ad2.storage.shown_image import shown_rgb

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from transformers import LlavaProcessor

WINDOW = 16  # batches within which sequences of similar length are grouped


@dataclass(frozen=True, slots=True)
class EncodedTurn:
    """Tokens of a question and its answer, after those of the picture. `asked`: number of the question's."""

    tokens: np.ndarray
    asked: int
    kind: str


@dataclass(frozen=True)
class TrainingBatch:
    """Tensors of B sequences of L tokens and their N answer tokens, all on one device.

    tokens, positions: (B, L). mask: (B, 1, L, L), whether a token sees another. pixels: uint8 (B, 3, H, W).
    before: (N,) index into the flattened (B, L) of the token before each answer token; answers: (N,) the answer tokens;
    weights: (N,); answer: (N,) the number of the answer that the token belongs to.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    pixels: torch.Tensor
    before: torch.Tensor
    answers: torch.Tensor
    weights: torch.Tensor
    answer: torch.Tensor

    def to(self, device: torch.device) -> TrainingBatch:
        """The same batch on a device."""
        return TrainingBatch(**{part.name: getattr(self, part.name).to(device) for part in fields(self)})


class EncodedRows:
    """See the head of this file. `pictures`: as `file` of `resized_pictures`. `weights`: of kinds of questions; others
    weigh 1. All tensors are on the CPU."""

    def __init__(
        self, rows: TrainingFile, processor: LlavaProcessor, pictures: Path, weights: Mapping[str, float] = {}
    ) -> None:  # fmt: skip
        self.weights = weights
        self.groups = [tuple(group.turns) for group in rows.groups]
        self._picture_tokens = _picture_tokens(processor)
        self.prefix, self.turns = _encoded(rows, processor, self._picture_tokens)
        names = picture_files(rows)
        number = {name: i for i, name in enumerate(names)}
        self.picture_of = np.array([number[group.image] for group in rows.groups])
        self.pictures = resized_pictures(names, processor, pictures)
        shown = {number[group.image]: group.seen for group in rows.groups if group.seen is not None}
        self.known = np.array(sorted(shown), dtype=np.int64)  # pictures of which is known what they show
        self.grids = _grids(shown, len(names), processor)
        self.pad = int(processor.tokenizer.pad_token_id)

    def __len__(self) -> int:
        return len(self.turns)

    @property
    def longest(self) -> int:
        """Tokens of the longest question with its picture and answer."""
        return len(self.prefix) + max(len(turn.tokens) for turns in self.turns for turn in turns)

    def order(self, batch: int, seed: int, most: int) -> Iterator[list[tuple[int, list[int]]]]:
        """Batches without end: lists of (group, its turns). A group of more than `most` turns has its driving turns
        and others at random. Depends on the arguments only, so a resumed run skips what it has seen."""
        epoch = 0
        while True:
            draw = np.random.default_rng([seed, epoch])
            chosen = [(int(i), self._some(int(i), most, draw)) for i in draw.permutation(len(self))]
            batches: list[list[tuple[int, list[int]]]] = []
            for start in range(0, len(chosen), batch * WINDOW):
                window = sorted(chosen[start : start + batch * WINDOW], key=lambda one: self._length(*one))
                batches += [window[i : i + batch] for i in range(0, len(window), batch)]
            yield from (batches[i] for i in draw.permutation(len(batches)))
            epoch += 1

    def pictures_order(self, batch: int, seed: int) -> Iterator[np.ndarray]:
        """Batches without end of the numbers of pictures in `known`, in random order.

        Those that show something of seen_grid.RARE come twice per epoch: most pictures show an empty road.
        """
        rare = [KINDS.index(kind) for kind in RARE]
        shows = self.grids[self.known][..., rare].any(axis=(1, 2, 3))
        numbers = np.repeat(self.known, 1 + shows)
        epoch = 0
        while True:
            order = np.random.default_rng([seed, epoch]).permutation(numbers)
            yield from (order[i : i + batch] for i in range(0, len(order), batch))
            epoch += 1

    def weight(self, chosen: Sequence[tuple[int, Sequence[int]]]) -> float:
        """Sum of the weights of a batch."""
        return sum(self._answer_weight(group, turn) for group, turns in chosen for turn in turns)

    def batch(self, chosen: Sequence[tuple[int, Sequence[int]]]) -> TrainingBatch:
        """The tensors of some groups, each with some of its turns."""
        import torch

        begin, length = len(self.prefix), max(self._length(*one) for one in chosen)
        tokens = np.full((len(chosen), length), self.pad)
        positions = np.zeros((len(chosen), length), dtype=np.int64)
        part = np.full((len(chosen), length), -1)  # 0: picture, 1...: turns, -1: padding
        before: list[np.ndarray] = []
        answers: list[np.ndarray] = []
        weights: list[np.ndarray] = []
        number: list[np.ndarray] = []
        for row, (group, turns) in enumerate(chosen):
            tokens[row, :begin], positions[row, :begin], part[row, :begin] = self.prefix, np.arange(begin), 0
            at = begin
            for which, turn in enumerate(turns, 1):
                one = self.turns[group][turn]
                end = at + len(one.tokens)
                tokens[row, at:end], part[row, at:end] = one.tokens, which
                positions[row, at:end] = np.arange(begin, begin + len(one.tokens))
                said = one.tokens[one.asked :]
                before.append(row * length + at + one.asked - 1 + np.arange(len(said)))
                answers.append(said)
                weights.append(np.full(len(said), self._answer_weight(group, turn) / len(said)))
                number.append(np.full(len(said), len(number)))
                at = end
        return TrainingBatch(
            tokens=torch.from_numpy(tokens), positions=torch.from_numpy(positions),
            mask=torch.from_numpy(_visible(part)), pixels=self.pixels(self.shown(chosen)),
            before=torch.from_numpy(np.concatenate(before)), answers=torch.from_numpy(np.concatenate(answers)).long(),
            weights=torch.from_numpy(np.concatenate(weights)).float(), answer=torch.from_numpy(np.concatenate(number)),
        )  # fmt: skip

    def shown(self, chosen: Sequence[tuple[int, Sequence[int]]]) -> np.ndarray:
        """(B,) the numbers of the pictures of a batch."""
        return self.picture_of[[group for group, _ in chosen]]

    def pixels(self, numbers: np.ndarray) -> torch.Tensor:
        """uint8 (B, 3, H, W) of pictures by number."""
        import torch

        return torch.from_numpy(np.ascontiguousarray(self.pictures[numbers]))

    def _answer_weight(self, group: int, turn: int) -> float:
        """The square root of the number of its tokens, times the weight of its kind."""
        one = self.turns[group][turn]
        return float(len(one.tokens) - one.asked) ** 0.5 * self.weights.get(one.kind, 1.0)

    def _some(self, group: int, most: int, draw: np.random.Generator) -> list[int]:
        turns = self.turns[group]
        if len(turns) <= most:
            return list(range(len(turns)))
        kept = [i for i, turn in enumerate(turns) if turn.kind == DRIVING][:most]
        others = [i for i in range(len(turns)) if i not in kept]
        return sorted([*kept, *map(int, draw.choice(others, most - len(kept), replace=False))])

    def _length(self, group: int, turns: Sequence[int]) -> int:
        return len(self.prefix) + sum(len(self.turns[group][turn].tokens) for turn in turns)


def _visible(part: np.ndarray) -> np.ndarray:
    """(B, 1, L, L): a token sees those of its own part and of the picture, up to itself."""
    causal = np.tri(part.shape[1], dtype=bool)
    same = part[:, :, None] == part[:, None, :]
    return (causal & (same | (part[:, None, :] == 0)))[:, None]


def _grids(shown: Mapping[int, Sequence[ShownBox]], count: int, processor: LlavaProcessor) -> np.ndarray:
    """(count, FINE * rows, FINE * columns, CHANNELS) uint8, zero where it is not known what a picture shows."""
    side = processor.image_processor.size
    rows, columns = (FINE * side[name] // processor.patch_size for name in ("height", "width"))
    grids = np.zeros((count, rows, columns, CHANNELS), dtype=np.uint8)
    for number, seen in shown.items():
        grids[number] = seen_grid(seen, rows, columns)
    return grids


def _picture_tokens(processor: LlavaProcessor) -> int:
    side = processor.image_processor.size
    return (side["height"] // processor.patch_size) * (side["width"] // processor.patch_size)


def _encoded(
    rows: TrainingFile, processor: LlavaProcessor, picture_tokens: int
) -> tuple[list[int], list[tuple[EncodedTurn, ...]]]:
    """The tokens up to the end of the picture, which all rows have in common, and those of all turns."""
    tokenizer = processor.tokenizer
    _check_template(tokenizer)
    distinct = list(dict.fromkeys(rows.turns()))
    asked = tokenizer([_prompt(tokenizer, turn) for turn in distinct], add_special_tokens=False)["input_ids"]
    said = tokenizer([turn.answer + END for turn in distinct], add_special_tokens=False)["input_ids"]
    image = tokenizer.convert_tokens_to_ids(IMAGE)
    at = asked[0].index(image)
    prefix = [*asked[0][:at], *[image] * picture_tokens]
    made = {
        turn: EncodedTurn(np.array([*question[at + 1 :], *answer], dtype=np.int32), len(question) - at - 1, turn.kind)
        for turn, question, answer in zip(distinct, asked, said, strict=True)
    }
    return prefix, [tuple(made[turn] for turn in group.turns) for group in rows.groups]


def _check_template(tokenizer: Any) -> None:
    """Raises Ad2Error unless a prompt has one image token, followed by its text."""
    image = tokenizer.convert_tokens_to_ids(IMAGE)
    try:
        text = _prompt(tokenizer, TrainingTurn("what is there", "", ""))
        fits = tokenizer(text, add_special_tokens=False)["input_ids"].count(image) == 1 and "what is there" in text
    except Exception as exc:  # of any type: the template is code of the folder, run by Jinja in its sandbox
        why = " ".join(str(exc).split())[:200]
        raise Ad2Error(f"the model's chat template cannot be used: {type(exc).__name__}: {why}") from exc
    if not fits:
        raise Ad2Error("the model's chat template makes no prompt with one image and a text; ms-swift can train it")


def _prompt(tokenizer: Any, turn: TrainingTurn) -> str:
    """As `llava_hf` writes it: the image tag, a line break and the text, in the chat template."""
    message = {"role": "user", "content": f"{IMAGE}\n{turn.prompt}"}
    return str(tokenizer.apply_chat_template([message], tokenize=False, add_generation_prompt=True))


def picture_files(rows: TrainingFile) -> list[Path]:
    """Each picture once, in the order of the rows."""
    return list(dict.fromkeys(group.image for group in rows.groups))


def resized_pictures(names: Sequence[Path], processor: LlavaProcessor, file: Path) -> np.ndarray:
    """(N, 3, H, W) uint8, as the processor resizes them, mapped from `file`, which is made if it is missing.

    Pillow's own resizing is what the processor does, without its conversions, which take twenty times as long. Raises
    Ad2Error if the first picture shows that this processor does something else.
    """
    images = processor.image_processor
    shape = (len(names), 3, images.size["height"], images.size["width"])
    content = "\n".join([str(shape), str(int(images.resample)), *map(str, names)])
    file = file.with_name(f"{file.stem}-{hashlib.sha256(content.encode()).hexdigest()[:16]}.npy")
    _check_resizing(_read(names[0]), processor)
    if not file.exists():
        with atomic_path(file, durable=False) as temporary:
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
            for number, name in enumerate(names):
                array[number] = _resized(_read(name), processor)
            array.flush()
            del array
    return np.asarray(np.lib.format.open_memmap(file, mode="r"))  # refuses pickled objects


def _resized(picture: Image.Image, processor: LlavaProcessor) -> np.ndarray:
    """(3, H, W) uint8."""
    images = processor.image_processor
    made = picture.resize((images.size["width"], images.size["height"]), images.resample)
    return np.asarray(made).transpose(2, 0, 1)


def _check_resizing(picture: Image.Image, processor: LlavaProcessor) -> None:
    made = processor.image_processor([picture], do_rescale=False, do_normalize=False, return_tensors="np")
    if not np.array_equal(np.rint(made["pixel_values"][0]), _resized(picture, processor)):
        raise Ad2Error(RESIZES_ONLY)


def _read(name: Path) -> Image.Image:
    try:
        with open_image(name) as picture:
            return shown_rgb(picture)
    except (OSError, ValueError) as exc:
        raise Ad2Error(f"{name}: not a readable picture ({exc}); export the rows again") from None
