"""Training of a small model on the rows of a training file, on the CPU: all weights, AdamW, cosine schedule.

First the vision encoder alone learns where the pictures show what (seen_grid.py), then the whole model answers, while
the encoder goes on with its own task. Without the first part, a model of this size stays blind: it answers from speed
and navigation, and the loss is the same with black pictures.

    OUT/                      the model folder: weights, tokenizer, processor (written first with the starting weights)
    OUT/ad2_training.json     what the model was trained on
    OUT/state.safetensors     weights, optimizer and step, atomically every few minutes; removed at the end
    OUT/settings.json         the identity of the run: another start in the folder must agree
    OUT/training.json         loss and rate over the steps
    OUT/grid_head.safetensors    part of the encoder's own task, for trainings that continue from OUT
    OUT/pictures-*.npy        the resized pictures; removed at the end

The same settings and rows give the same order of batches, so a killed run continues where its last state was saved.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.learn.encoded_rows import EncodedRows, TrainingBatch
from closedloop_plugin.learn.gradient_group import GradientGroup, gradient_group
from closedloop_plugin.learn.grid_head import grid_loss, make_head, save_head
from closedloop_plugin.learn.tiny_model import BLACK, TinyModelSize, blinded, make_tiny_model
from closedloop_plugin.learn.training_file import TrainingFile
from closedloop_plugin.learn.training_state import restore_state, save_state, weights_of
from lmms_eval_ad2 import __version__
from lmms_eval_ad2.errors import Ad2Error
from lmms_eval_ad2.export.training import set_path
from lmms_eval_ad2.storage.files import atomic_path, atomic_write_json
from lmms_eval_ad2.storage.identity import refuse_differences
from lmms_eval_ad2.storage.local_weights import TRAINING_CARD
from lmms_eval_ad2.storage.lock import lock_folder
from lmms_eval_ad2.storage.training_card import read_card, write_card
from lmms_eval_ad2.storage.untrusted_json import load

if TYPE_CHECKING:
    import numpy as np
    import torch
    from transformers import LlavaForConditionalGeneration, LlavaProcessor

STATE, SETTINGS, LOG = "state.safetensors", "settings.json", "training.json"
CLIP, BETAS = 1.0, (0.9, 0.98)
NO_DECAY = ("bias", "norm", "embed")  # parts of names of parameters that are not decayed
REPORT_S = 15.0
SEE_BATCH, SEE_RATE = 2, 2.0  # batch and learning rate of the first steps, in those of the others


@dataclass(frozen=True)
class TrainingSettings:
    """start: model folder to continue from; None: random weights of `size`. batch: pictures per step. per_picture:
    questions of one picture in a step. warm_up: share of the steps. jitter: greatest change of brightness and contrast.
    see: steps in which the encoder learns to see, before `steps`; see_weight: of its task in those.
    blind: the model sees black pictures, now and whenever it is loaded.
    """

    seed: int = 0
    epochs: float = 8.0
    steps: int | None = None  # instead of epochs
    batch: int = 32
    per_picture: int = 3
    rate: float = 1e-3
    warm_up: float = 0.03
    decay: float = 0.05
    jitter: float = 0.2
    see: int = 0
    see_weight: float = 0.02
    start: Path | None = None
    blind: bool = False
    size: TinyModelSize = field(default_factory=TinyModelSize)


@dataclass
class TrainingProgress:
    """Steps done and the log of (step, loss) so far; part of the state."""

    step: int = 0
    log: list[tuple[int, float]] = field(default_factory=list)


def train(
    files: Sequence[Path], out: Path, settings: TrainingSettings, *, processes: int = 1, save_s: float = 120.0,
    say: Callable[[str], None] = print,
) -> Path:  # fmt: skip
    """Train until the last step, and return OUT; nothing is done if OUT is trained already.

    processes: that share each batch, with one thread each. save_s: seconds between states. See the head of this file.
    """
    rows = TrainingFile.read(files)  # before the folder is made, so that a wrong file leaves none
    with lock_folder(out):
        if not _begun(out, _identity(rows, settings)):
            _write_start(rows, out, settings)
        if (out / LOG).exists():
            say(f"{out} is trained already")
            return out
        with gradient_group(min(processes, settings.batch), _help, (files, out, settings)) as group:
            trainer = _trainer(group, rows, out, settings)
            about = f"{len(trainer.data)} pictures, {trainer.steps} steps of {settings.batch}"
            say(f"{about}; from step {trainer.progress.step}")
            trainer.run(out, save_s, say)
        save_model(trainer.model, out)
        save_head(trainer.head, out)
        _name_training_data(files, out, settings, say)
        atomic_write_json(out / LOG, {"log": trainer.progress.log, "steps": trainer.steps})
        for file in [out / STATE, *out.glob("pictures-*.npy")]:
            file.unlink(missing_ok=True)
    return out


def _help(group: GradientGroup, files: Sequence[Path], out: Path, settings: TrainingSettings) -> None:
    """The work of a process that is not the first: the same steps, but nothing is written."""
    _trainer(group, TrainingFile.read(files), out, settings).run(out, math.inf, lambda text: None)


def _trainer(group: GradientGroup, rows: TrainingFile, out: Path, settings: TrainingSettings) -> RowTrainer:
    """With the folder's model and its last saved state."""
    import torch

    torch.set_num_threads(1)
    model, processor = load_model(out)
    data = EncodedRows(rows, processor, out / "pictures.npy")
    head = make_head(model.model.multi_modal_projector.linear_1.in_features, settings.start)
    trainer = RowTrainer(model, head, data, settings, processor, group)
    trainer.restore(out / STATE)
    return trainer


def _name_training_data(
    files: Sequence[Path], out: Path, settings: TrainingSettings, say: Callable[[str], None]
) -> None:
    """Write ad2_training.json: what the files were made from, and what the model was trained on before."""
    sources = [*map(set_path, files), *([] if settings.start is None else [settings.start / TRAINING_CARD])]
    missing = [source for source in sources if not source.is_file()]
    for source in missing:
        say(f"{source} is missing, so {out} does not name what it was trained on; export the rows again")
    if missing:
        return
    sets = {one.sha256: one for source in sources for one in read_card(source).sets}
    write_card(out, sets.values(), model=out.name, seed=settings.seed, version=__version__)


class RowTrainer:
    """The loop over batches."""

    def __init__(
        self, model: LlavaForConditionalGeneration, head: torch.nn.Linear, data: EncodedRows,
        settings: TrainingSettings, processor: LlavaProcessor, group: GradientGroup,
    ) -> None:  # fmt: skip
        import torch

        self.model, self.head, self.data, self.settings = model, head, data, settings
        self.processor, self.group = processor, group
        answering = settings.steps or max(1, round(settings.epochs * math.ceil(len(data) / settings.batch)))
        self.steps = settings.see + answering
        self.taught = len(data.known) > 0
        if settings.see and not self.taught:
            raise Ad2Error("the rows do not say what the pictures show ('seen'): export them again, or without --see")
        decayed, others = _parameters(torch.nn.ModuleList([model, head]))
        groups = [{"params": decayed, "weight_decay": settings.decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=settings.rate, betas=BETAS, foreach=True)
        self.progress = TrainingProgress()

    def restore(self, file: Path) -> None:
        if file.exists():
            numbers = restore_state(file, self.model, self.head, self.optimizer)
            self.progress = TrainingProgress(numbers["step"], [(int(a), float(b)) for a, b in numbers["log"]])

    def save(self, file: Path) -> None:
        save_state(file, self.model, self.head, self.optimizer, asdict(self.progress))

    def run(self, out: Path, save_s: float, say: Callable[[str], None]) -> None:
        """All remaining steps."""
        self.model.train()
        work = self._work()
        for _ in range(self.progress.step):
            next(work)
        began = reported = saved = time.monotonic()
        first, losses, pictures = self.progress.step, [], 0
        while self.progress.step < self.steps:
            step, chosen = next(work)
            losses.append(step(chosen))
            pictures += len(chosen)
            self.progress.step += 1
            now, last = time.monotonic(), self.progress.step in (self.settings.see, self.steps)
            if now - reported > REPORT_S or last:
                mean = sum(losses) / len(losses)
                self.progress.log.append((self.progress.step, round(mean, 5)))
                rate = pictures / (now - began)
                left = (now - began) / (self.progress.step - first) * (self.steps - self.progress.step)
                done = f"step {self.progress.step}/{self.steps}"
                say(f"{done}: loss {mean:.4f}, {rate:.1f} pictures/s, {left:.0f} s left")
                reported, losses = now, []
            if now - saved > save_s and self.progress.step < self.steps:
                self.save(out / STATE)
                saved = now

    def _work(self) -> Iterator[tuple[Callable[[Any], float], Any]]:
        """All steps from the first, each with its batch."""
        seen = self.data.pictures_order(SEE_BATCH * self.settings.batch, self.settings.seed)
        asked = self.data.order(self.settings.batch, self.settings.seed, self.settings.per_picture)
        for _ in range(self.settings.see):
            yield self.see, next(seen)
        while True:
            yield self.answer, next(asked)

    def see(self, numbers: np.ndarray) -> float:
        """One step of the vision encoder's task on a batch of pictures; the loss before it."""
        self._set_rate(SEE_RATE * scheduled(self.progress.step, self.settings.see, self.settings.warm_up))
        part = numbers[self.group.rank :: self.group.size]
        parameters = [*self.model.model.vision_tower.parameters(), *self.head.parameters()]
        return self._step(parameters, len(part) > 0, lambda: (self._seen(part) / len(numbers),) * 2)

    def answer(self, chosen: Sequence[tuple[int, Sequence[int]]]) -> float:
        """One step of both tasks on a batch; the loss of the answers before it."""
        since, steps = self.progress.step - self.settings.see, self.steps - self.settings.see
        self._set_rate(scheduled(since, steps, self.settings.warm_up))
        part, weight = self.group.part(chosen), self.data.weight(chosen)

        def losses() -> tuple[torch.Tensor, torch.Tensor]:
            batch = self.data.batch(part)
            tokens = picture_tokens(self.model, self._pixels(batch.pixels))
            answers = loss_of(self.model, batch, tokens) / weight
            if not self.taught:
                return answers, answers
            seen = grid_loss(self.head, tokens, self._grids(batch.shown.numpy())) / len(chosen)
            return answers + self.settings.see_weight * seen, answers

        return self._step([*self.model.parameters(), *self.head.parameters()], len(part) > 0, losses)

    def _step(
        self, parameters: Sequence[torch.nn.Parameter], some: bool,
        losses: Callable[[], tuple[torch.Tensor, torch.Tensor]],
    ) -> float:  # fmt: skip
        """Add the gradients of all processes and change `parameters`. losses: those of this process, of which the first
        is minimised and the second is returned as its sum over all. some: whether it has a part of the batch."""
        import torch

        self.optimizer.zero_grad()
        shown = torch.zeros(1)
        if some:
            minimised, known = losses()
            minimised.backward()
            shown[0] = known.detach()
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.group.add([*(p.grad for p in parameters if p.grad is not None), shown])
        torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        self.optimizer.step()
        return float(shown)

    def _seen(self, numbers: np.ndarray) -> torch.Tensor:
        """Loss of the encoder's task, summed over some pictures."""
        tokens = picture_tokens(self.model, self._pixels(self.data.pixels(numbers)))
        return grid_loss(self.head, tokens, self._grids(numbers))

    def _pixels(self, pictures: torch.Tensor) -> torch.Tensor:
        seed = (self.settings.seed * 1_000_003 + self.progress.step) * self.group.size + self.group.rank
        return pixels_of(pictures, self.processor, self.settings.jitter, seed)

    def _grids(self, numbers: np.ndarray) -> torch.Tensor:
        import torch

        return torch.from_numpy(self.data.grids[numbers])

    def _set_rate(self, share: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate * share


def pixels_of(pictures: torch.Tensor, processor: LlavaProcessor, jitter: float = 0.0, seed: int = 0) -> torch.Tensor:
    """Normalised as by the processor, after a random change of contrast and brightness of each picture by `jitter`.

    A blind model's pictures are black (see tiny_model.blinded), and stay so.
    """
    import torch

    images = processor.image_processor
    mean, std = (torch.tensor(value)[:, None, None] for value in (images.image_mean, images.image_std))
    values = pictures.float().mul_(images.rescale_factor)
    if jitter and images.rescale_factor != BLACK:
        draw = torch.Generator().manual_seed(seed)
        gain, lift = torch.rand(2, len(pictures), 1, 1, 1, generator=draw) * 2 - 1
        values = (values * (1 + jitter * gain) + jitter / 2 * lift).clamp_(0, 1)
    return values.sub_(mean).div_(std)


def loss_of(model: LlavaForConditionalGeneration, batch: TrainingBatch, seen: torch.Tensor) -> torch.Tensor:
    """Weighted cross entropy, summed over the answer tokens; the rest of the logits is not computed."""
    import torch

    logits = answer_logits(model, batch, seen)
    each = torch.nn.functional.cross_entropy(logits, batch.answers, reduction="none")
    return (each * batch.weights).sum()


def answer_logits(model: LlavaForConditionalGeneration, batch: TrainingBatch, seen: torch.Tensor) -> torch.Tensor:
    """(N, V): the logits before each answer token. seen: of `picture_tokens`."""
    import torch

    mask = torch.zeros(batch.mask.shape).masked_fill_(~batch.mask, torch.finfo(torch.float32).min)
    embedded = model.get_input_embeddings()(batch.tokens)
    places = (batch.tokens == model.config.image_token_id)[..., None].expand_as(embedded)
    embedded = embedded.masked_scatter(places, model.model.multi_modal_projector(seen))
    out = model.model.language_model(
        inputs_embeds=embedded, attention_mask=mask, position_ids=batch.positions, use_cache=False
    )
    return model.lm_head(out.last_hidden_state.flatten(0, 1)[batch.before])


def picture_tokens(model: LlavaForConditionalGeneration, pixels: torch.Tensor) -> torch.Tensor:
    """(B, tokens, width of the encoder) of (B, 3, H, W). Equal pictures, as a blind twin's, are encoded once."""
    distinct = pixels[:1] if bool((pixels == pixels[:1]).all()) else pixels
    states = model.model.vision_tower(distinct, output_hidden_states=True).hidden_states
    tokens: torch.Tensor = states[model.config.vision_feature_layer]
    return tokens.expand(len(pixels), -1, -1)


def scheduled(step: int, steps: int, warm_up: float) -> float:
    """Share of the learning rate: linear warm-up, then half a cosine to 0."""
    warm = max(1, math.ceil(warm_up * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def load_model(folder: Path) -> tuple[LlavaForConditionalGeneration, LlavaProcessor]:
    """Model in float32 and processor of a folder."""
    import torch
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    model = LlavaForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    return model, AutoProcessor.from_pretrained(folder)


def save_model(model: LlavaForConditionalGeneration, out: Path) -> None:
    """The weights, atomically; configuration, tokenizer and processor are in OUT since the start."""
    from safetensors.torch import save_file

    with atomic_path(out / "model.safetensors") as temporary:
        save_file(weights_of(model), temporary, metadata={"format": "pt"})


def _parameters(model: torch.nn.Module) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """Those with weight decay, and those without."""
    decayed: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (others if any(word in name for word in NO_DECAY) or parameter.ndim < 2 else decayed).append(parameter)
    return decayed, others


def _identity(rows: TrainingFile, settings: TrainingSettings) -> dict[str, Any]:
    return {"rows_sha256": list(rows.sha256), "version": __version__,
            **json.loads(json.dumps(asdict(settings), default=str))}  # fmt: skip


def _begun(out: Path, identity: dict[str, Any]) -> bool:
    """Whether the folder has the starting weights of this very run; raises Ad2Error if it has those of another."""
    file = out / SETTINGS
    if not file.exists():
        return False
    refuse_differences(out, load(file), identity, "a training", "settings")
    return True


def _write_start(rows: TrainingFile, out: Path, settings: TrainingSettings) -> None:
    from transformers import AutoProcessor, LlavaForConditionalGeneration

    if settings.start is None:
        make_tiny_model(rows, out, settings.seed, settings.size)
    else:
        LlavaForConditionalGeneration.from_pretrained(settings.start, dtype="auto").save_pretrained(out)
        AutoProcessor.from_pretrained(settings.start).save_pretrained(out)
    if settings.blind:
        blinded(AutoProcessor.from_pretrained(out)).save_pretrained(out)
    atomic_write_json(out / SETTINGS, _identity(rows, settings))
