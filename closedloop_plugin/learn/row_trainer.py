"""RowTrainer: the steps of a training, first of the vision encoder alone, then of the whole model."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closedloop_plugin.learn.encoded_rows import EncodedRows
from closedloop_plugin.learn.forward_pass import loss_of, picture_tokens, pixels_of
from closedloop_plugin.learn.gradient_group import GradientGroup
from closedloop_plugin.learn.grid_head import grid_loss
from closedloop_plugin.learn.tiny_model import TinyModelSize
from closedloop_plugin.learn.training_file import CHOICE, DRIVING
from closedloop_plugin.learn.training_state import restore_state, save_state
from lmms_eval_ad2.core.errors import Ad2Error

if TYPE_CHECKING:
    import numpy as np
    import torch
    from transformers import LlavaForConditionalGeneration, LlavaProcessor

CLIP, BETAS = 1.0, (0.9, 0.98)
NO_DECAY = ("bias", "norm", "embed")  # parts of names of parameters that are not decayed
REPORT_S = 15.0
SEE_BATCH, SEE_RATE = 2, 2.0  # batch and learning rate of the first steps, in those of the others


@dataclass(frozen=True)
class TrainingSettings:
    """start: model folder to continue from; None: random weights of `size`. batch: pictures per step. per_picture:
    questions of one picture in a step. driving_weight, choice_weight: of questions of these kinds; the others weigh 1.
    warm_up: share of the steps. jitter: greatest change of brightness and contrast. shift: greatest move of a picture
    to the side, pixels. dropout: share of the values of a picture's tokens that are 0 in a step of answers. see: steps
    in which the encoder learns to see, before `steps`; see_weight: of its task in those. blind: the model sees black
    pictures, now and whenever it is loaded.
    """

    seed: int = 0
    epochs: float = 8.0
    steps: int | None = None  # instead of epochs
    batch: int = 32
    per_picture: int = 3
    driving_weight: float = 1.0
    choice_weight: float = 1.0
    rate: float = 1e-3
    warm_up: float = 0.03
    decay: float = 0.05
    jitter: float = 0.2
    shift: int = 4
    dropout: float = 0.0
    see: int = 0
    see_weight: float = 0.02
    start: Path | None = None
    blind: bool = False
    size: TinyModelSize = field(default_factory=TinyModelSize)

    @property
    def weights(self) -> dict[str, float]:
        """Of the kinds of questions."""
        return {DRIVING: self.driving_weight, CHOICE: self.choice_weight}


class TrainingDivergedError(Ad2Error):
    """A loss or gradient is no finite number."""


@dataclass
class TrainingProgress:
    """Steps done and the log of (step, loss) so far; part of the state."""

    step: int = 0
    log: list[tuple[int, float]] = field(default_factory=list)


class RowTrainer:
    """The loop over batches. Model and head are on one device, where the batches follow them."""

    def __init__(
        self, model: LlavaForConditionalGeneration, head: torch.nn.Linear, data: EncodedRows,
        settings: TrainingSettings, processor: LlavaProcessor, group: GradientGroup,
    ) -> None:  # fmt: skip
        import torch

        self.model, self.head, self.data, self.settings = model, head, data, settings
        self.processor, self.group, self.device = processor, group, head.weight.device
        answering = settings.steps or max(1, round(settings.epochs * math.ceil(len(data) / settings.batch)))
        self.steps = settings.see + answering
        self.taught = len(data.known) > 0
        decayed, others = _parameters(torch.nn.ModuleList([model, head]))
        groups = [{"params": decayed, "weight_decay": settings.decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=settings.rate, betas=BETAS, foreach=True)
        self.progress = TrainingProgress()
        self._kept = 0  # the step of the last saved state

    def restore(self, file: Path) -> None:
        if file.exists():
            numbers = restore_state(file, self.model, self.head, self.optimizer)
            self.progress = TrainingProgress(numbers["step"], [(int(a), float(b)) for a, b in numbers["log"]])
            self._kept = self.progress.step

    def save(self, file: Path | None) -> None:
        """Save the state, unless this step's is saved or `file` is None."""
        if file is not None and self._kept < self.progress.step:
            save_state(file, self.model, self.head, self.optimizer, asdict(self.progress))
            self._kept = self.progress.step

    def run(self, state: Path | None, save_s: float, say: Callable[[str], None]) -> None:
        """All remaining steps.

        state: file that is saved every `save_s` seconds, after the last step, and before a KeyboardInterrupt or the
        Ad2Error about another process is raised; None: nothing is saved. Raises TrainingDivergedError before a step
        that would make the weights useless.
        """
        try:
            self._run(state, save_s, say)
        except TrainingDivergedError:
            raise
        except (KeyboardInterrupt, Ad2Error):  # both come between two changes of the weights, see _step
            self.save(state)
            raise
        self.save(state)

    def _run(self, state: Path | None, save_s: float, say: Callable[[str], None]) -> None:
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
            now, last = time.monotonic(), self.progress.step in (self.settings.see, self.steps)
            if now - reported > REPORT_S or last:
                mean = sum(losses) / len(losses)
                self.progress.log.append((self.progress.step, round(mean, 5)))
                rate = pictures / (now - began)
                left = (now - began) / (self.progress.step - first) * (self.steps - self.progress.step)
                done = f"step {self.progress.step}/{self.steps}"
                say(f"{done}: loss {mean:.4f}, {rate:.1f} pictures/s, {left:.0f} s left")
                reported, losses = now, []
            if now - saved > save_s:
                self.save(state)
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
        part = numbers[self.group.part]

        def losses() -> tuple[torch.Tensor, torch.Tensor]:
            tokens = picture_tokens(self.model, self._pixels(self.data.pixels(part)))
            seen = grid_loss(self.head, tokens, self._grids(part)) / len(numbers)
            return seen, seen

        return self._step([*self.model.model.vision_tower.parameters(), *self.head.parameters()], len(part) > 0, losses)

    def answer(self, chosen: Sequence[tuple[int, Sequence[int]]]) -> float:
        """One step of both tasks on a batch; the loss of the answers before it."""
        since, steps = self.progress.step - self.settings.see, self.steps - self.settings.see
        self._set_rate(scheduled(since, steps, self.settings.warm_up))
        part, weight = chosen[self.group.part], self.data.weight(chosen)

        def losses() -> tuple[torch.Tensor, torch.Tensor]:
            batch = self.data.batch(part).to(self.device)
            tokens = picture_tokens(self.model, self._pixels(batch.pixels))
            answers = loss_of(self.model, batch, self._dropped(tokens)) / weight
            if not self.taught:
                return answers, answers
            seen = grid_loss(self.head, tokens, self._grids(self.data.shown(part))) / len(chosen)
            return answers + self.settings.see_weight * seen, answers

        return self._step([*self.model.parameters(), *self.head.parameters()], len(part) > 0, losses)

    def _step(
        self, parameters: Sequence[torch.nn.Parameter], some: bool,
        losses: Callable[[], tuple[torch.Tensor, torch.Tensor]],
    ) -> float:  # fmt: skip
        """Add the gradients of all processes, change `parameters` and count the step. losses: those of this process, of
        which the first is minimised and the second is returned as its sum over all. some: whether it has a part of the
        batch."""
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
        norm = torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        if not (math.isfinite(shown) and math.isfinite(norm)):
            about = f"loss {float(shown):g}, length of the gradient {float(norm):g}"
            raise TrainingDivergedError(f"step {self.progress.step + 1} diverges ({about}); try a lower --rate")
        with _interrupts_delayed():  # a state is saved of whole steps only
            self.optimizer.step()
            self.progress.step += 1
        return float(shown)

    def _pixels(self, pictures: torch.Tensor) -> torch.Tensor:
        images = pictures.to(self.device)
        return pixels_of(images, self.processor, self.settings.jitter, self.settings.shift, self._step_seed())

    def _dropped(self, tokens: torch.Tensor) -> torch.Tensor:
        """(B, T, C) tokens of pictures with zeros at random places, the same on all devices, and the same mean.

        A picture is one of few places of its route, which the tokens tell apart: without zeros, the answers of many
        pictures are memorised.
        """
        import torch

        share = self.settings.dropout
        if not share:
            return tokens
        draw = torch.Generator().manual_seed(self._step_seed())
        kept = torch.rand(tokens.shape, generator=draw) >= share
        return tokens * kept.to(self.device) / (1 - share)

    def _step_seed(self) -> int:
        return (self.settings.seed * 1_000_003 + self.progress.step) * self.group.size + self.group.rank

    def _grids(self, numbers: np.ndarray) -> torch.Tensor:
        import torch

        return torch.from_numpy(self.data.grids[numbers]).to(self.device)

    def _set_rate(self, share: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate * share


@contextmanager
def _interrupts_delayed() -> Iterator[None]:
    """Call the handlers of SIGINT and SIGTERM after the block instead of in it; other actions stay."""
    if threading.current_thread() is not threading.main_thread():  # no signal interrupts it
        yield
        return
    handlers: dict[int, Callable[..., Any]] = {
        n: handler for n in (signal.SIGINT, signal.SIGTERM) if callable(handler := signal.getsignal(n))
    }
    received: list[int] = []
    for number in handlers:
        signal.signal(number, lambda which, frame: received.append(which))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if received:
        handlers[signal.Signals(received[0])](received[0], None)


def scheduled(step: int, steps: int, warm_up: float) -> float:
    """Share of the learning rate: linear warm-up, then half a cosine to 0."""
    warm = max(1, math.ceil(warm_up * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def _parameters(model: torch.nn.Module) -> tuple[list[torch.nn.Parameter], list[torch.nn.Parameter]]:
    """Those with weight decay, and those without."""
    decayed: list[torch.nn.Parameter] = []
    others: list[torch.nn.Parameter] = []
    for name, parameter in model.named_parameters():
        (others if any(word in name for word in NO_DECAY) or parameter.ndim < 2 else decayed).append(parameter)
    return decayed, others
