"""The steps of a training with transformers' Trainer, first of the vision encoder alone, then of the whole model.

Trainer and accelerate have the loop, data parallelism, checkpoints and random states. What is here is particular to
rows with pictures: the parts of a step, the two losses, the schedule of two phases, and when the training reports,
saves and stops.
"""

from __future__ import annotations

import math
import os
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.state import PartialState
from accelerate.utils import reduce
from safetensors import safe_open
from torch.multiprocessing.spawn import ProcessException, start_processes
from torch.utils.data import DataLoader, Dataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from closedloop_plugin.learn.encoded_rows import EncodedRows, TrainingBatch
from closedloop_plugin.learn.forward_pass import grid_loss, loss_of, picture_tokens, pixels_of
from closedloop_plugin.learn.model_folder import CPU
from closedloop_plugin.learn.tiny_model import TinyModelSize
from closedloop_plugin.learn.training_file import CHOICE, DRIVING
from lmms_eval_ad2.core.errors import Ad2Error

if TYPE_CHECKING:
    from transformers import LlavaForConditionalGeneration, LlavaProcessor

CLIP, BETAS = 1.0, (0.9, 0.98)
NO_DECAY = ("bias", "norm", "embed")  # parts of names of parameters that are not decayed
REPORT_S = 15.0
SEE_BATCH, SEE_RATE = 2, 2.0  # batch and learning rate of the first steps, in those of the others
COMPLETE = "complete"  # file of a checkpoint that was written to its end
INTERRUPTS = (signal.SIGINT, signal.SIGTERM)


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


class TrainingSteps(Dataset[dict[str, Any]]):
    """The arguments of `TaughtModel.forward` for each part of each step: item `step * processes + rank`."""

    def __init__(
        self, data: EncodedRows, settings: TrainingSettings, processor: LlavaProcessor, processes: int = 1
    ) -> None:
        self.data, self.settings, self.processor, self.processes = data, settings, processor, processes
        answering = settings.steps or max(1, round(settings.epochs * math.ceil(len(data) / settings.batch)))
        self.steps = settings.see + answering
        seen = data.pictures_order(SEE_BATCH * settings.batch, settings.seed)
        asked = data.order(settings.batch, settings.seed, settings.per_picture)
        self.batches: list[Any] = [*islice(seen, settings.see), *islice(asked, answering)]

    def __len__(self) -> int:
        return self.steps * self.processes

    def __getitem__(self, number: int) -> dict[str, Any]:
        """This process's part of a batch. One that is empty, since the batch is smaller than the number of processes,
        is a picture whose share of the loss is 0. Means over processes are sums over the batch."""
        step, rank = divmod(number, self.processes)
        whole = self.batches[step]
        part = whole[rank :: self.processes]
        share = self.processes if len(part) else 0
        part = part if len(part) else whole[:1]
        item: dict[str, Any] = {}
        if step < self.settings.see:
            pictures, pixels, weight = part, self.data.pixels(part), 1.0
        else:
            batch = self.data.batch(part)
            pictures, pixels, weight = self.data.shown(part), batch.pixels, self.settings.see_weight
            item = {"batch": batch, "answer_share": share / self.data.weight(whole)}
        if len(self.data.known):
            item |= {"grids": torch.from_numpy(self.data.grids[pictures]), "grid_share": share * weight / len(whole)}
        seed = self.settings.seed * 1_000_003 * self.processes + number
        changed = pixels_of(pixels, self.processor, self.settings.jitter, self.settings.shift, seed)
        return {"pixels": changed, **item}

    def rate_share(self, step: int) -> float:
        """The learning rate of a step, in that of the settings; each phase has its own schedule."""
        see, warm_up = self.settings.see, self.settings.warm_up
        if step < see:
            return SEE_RATE * scheduled(step, see, warm_up)
        return scheduled(step - see, self.steps - see, warm_up)


class TaughtModel(torch.nn.Module):
    """A LLaVA with the head of its encoder's own task. `shown`: the last loss that is reported, of this process."""

    def __init__(self, llava: LlavaForConditionalGeneration, head: torch.nn.Linear, dropout: float = 0.0) -> None:
        super().__init__()
        self.llava, self.head, self.dropout = llava, head, dropout
        self.shown = torch.zeros(())
        tied = llava._tied_weights_keys or () if llava.config.tie_word_embeddings else ()
        self._keys_to_ignore_on_save = [f"llava.{name}" for name in tied]  # read by Trainer

    def forward(
        self, pixels: torch.Tensor, batch: TrainingBatch | None = None, answer_share: float = 0.0,
        grids: torch.Tensor | None = None, grid_share: float = 0.0,
    ) -> dict[str, torch.Tensor]:  # fmt: skip
        """The loss that is minimised: of what the pictures show, of the answers, or of both.

        A picture is one of few places of its route, which its tokens tell apart: without dropout, the answers of many
        pictures are memorised.
        """
        tokens = picture_tokens(self.llava, pixels)
        losses = []
        if batch is not None:
            dropped = torch.nn.functional.dropout(tokens, self.dropout)
            losses.append(loss_of(self.llava, batch, dropped) * answer_share)
        if grids is not None:
            losses.append(grid_loss(self.head, tokens, grids) * grid_share)
        self.shown = losses[0].detach()
        return {"loss": torch.stack(losses).sum()}

    def state_dict(self, *arguments: Any, **more: Any) -> dict[str, Any]:  # type: ignore[override]  # as torch's
        """All weights, a tied one once, as safetensors needs it."""
        found = super().state_dict(*arguments, **more)
        return {name: weight for name, weight in found.items() if name not in self._keys_to_ignore_on_save}

    def tie_weights(self) -> None:
        self.llava.tie_weights()


class TrainingWatch(TrainerCallback):
    """Reports every REPORT_S seconds; decides when a checkpoint is written, and marks it as complete; ends the training
    at a loss or gradient that is not finite, and after the step in which it was interrupted."""

    def __init__(self, steps: TrainingSteps, save_s: float, say: Callable[[str], None]) -> None:
        self.steps, self.save_s, self.say = steps, save_s, say
        self.interrupt: int | None = None  # signal that was received
        self.losses: list[float] = []
        self.pictures = self.first = 0
        self.began = self.reported = self.saved = 0.0

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        self.first = state.global_step
        if state.is_world_process_zero:
            about = f"{len(self.steps.data)} pictures, {self.steps.steps} steps of {self.steps.settings.batch}"
            self.say(f"{about}; from step {self.first}")
        self.began = self.reported = self.saved = time.monotonic()

    def on_pre_optimizer_step(self, args: Any, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        """After clipping, which makes an infinite gradient not a number, and before the weights are changed."""
        model: TaughtModel = more["model"]
        length = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
        if not (math.isfinite(length) and math.isfinite(model.shown)):
            about = f"loss {float(model.shown):g}, length of the gradient {float(length):g}"
            raise TrainingDivergedError(f"step {state.global_step + 1} diverges ({about}); try a lower --config rate")

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        now, step = time.monotonic(), state.global_step
        mine = (float(more["model"].shown), float(now - self.saved > self.save_s), float(self.interrupt is not None))
        loss, save, stop = reduce(torch.tensor(mine), "mean").tolist()  # processes save and stop at the same step
        self.losses.append(loss)
        self.pictures += len(self.steps.batches[step - 1])
        if now - self.reported > REPORT_S or step in (self.steps.settings.see, self.steps.steps):
            self._report(state, now)
        if save or stop or step == self.steps.steps:
            control.should_save, control.should_training_stop = True, bool(stop) or control.should_training_stop
            self.saved = now

    def _report(self, state: TrainerState, now: float) -> None:
        step, steps = state.global_step, self.steps.steps
        mean = sum(self.losses) / len(self.losses)
        state.log_history.append({"step": step, "loss": round(mean, 5)})
        left = (now - self.began) / (step - self.first) * (steps - step)
        if state.is_world_process_zero:
            rate = self.pictures / (now - self.began)
            self.say(f"step {step}/{steps}: loss {mean:.4f}, {rate:.1f} pictures/s, {left:.0f} s left")
        self.reported, self.losses = now, []

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **more: Any) -> None:
        PartialState().wait_for_everyone()  # each process writes its random state
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()


class RowTrainer(Trainer):
    """Trainer that takes the items of TrainingSteps in their order, each of which is a batch."""

    def get_train_dataloader(self) -> DataLoader[dict[str, Any]]:
        steps: Any = self.train_dataset
        loader: DataLoader[dict[str, Any]] = DataLoader(steps, collate_fn=lambda items: items[0])
        prepared: DataLoader[dict[str, Any]] = self.accelerator.prepare(loader)
        return prepared


def run_steps(
    model: TaughtModel, steps: TrainingSteps, folder: Path, device: str, save_s: float, say: Callable[[str], None]
) -> None:
    """Train from the last complete checkpoint in `folder` on; the last step's is written, too.

    A checkpoint is written before a received interrupt is raised. Raises TrainingDivergedError before a step that would
    make the weights useless.
    """
    if torch.device(device).type == CPU:
        torch.set_num_threads(1)
    else:
        torch.set_float32_matmul_precision("high")  # allows TF32 on the tensor cores of NVIDIA GPUs
    os.environ["ACCELERATE_TORCH_DEVICE"] = device
    settings, last = steps.settings, last_checkpoint(folder)
    if last is not None:
        with safe_open(last / "model.safetensors", framework="pt") as saved:
            if set(saved.keys()) != set(model.state_dict()):  # Trainer would load those that fit
                raise Ad2Error(f"{last}: other weights than the model's; continue with the versions that saved them")
    arguments = TrainingArguments(
        str(folder), max_steps=steps.steps, max_grad_norm=CLIP, seed=settings.seed, save_total_limit=2,
        use_cpu=torch.device(device).type == CPU, ddp_find_unused_parameters=True,
        ddp_backend="gloo" if torch.distributed.is_initialized() else None,
        save_strategy="no", logging_strategy="no", logging_nan_inf_filter=False, remove_unused_columns=False,
        report_to=[], disable_tqdm=True,
    )  # fmt: skip
    if not arguments.use_cpu:  # Trainer would take the first GPU, and spread each part over all of them
        arguments._setup_devices, arguments._n_gpu = torch.device(device), 1
    watch = TrainingWatch(steps, save_s, say)
    optimizer = torch.optim.AdamW(_parameters(model, settings.decay), settings.rate, BETAS, foreach=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, steps.rate_share)
    trainer = RowTrainer(
        model, arguments, train_dataset=steps, callbacks=[watch], optimizers=(optimizer, schedule)
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    with _interrupts_noted(watch):
        trainer.train(resume_from_checkpoint=None if last is None else str(last))


def last_checkpoint(folder: Path) -> Path | None:
    """The newest one that was written to its end."""
    found = [path.parent for path in folder.glob(f"checkpoint-*/{COMPLETE}")]
    return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def in_processes(count: int, work: Callable[..., None], *arguments: Any) -> None:
    """Call `work(*arguments)` in as many processes, with one thread each, which accelerate lets share each step. One
    process with several threads is slower: the tensors of a small model are too small to be divided.

    Raises Ad2Error if one of them ends early, or raises one. After an interrupt they write a checkpoint first.
    """
    if count == 1:
        work(*arguments)
        return
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # DDP warns if the second phase leaves no parameter unused
    with tempfile.TemporaryDirectory() as folder:
        context = start_processes(_join, (count, folder, work, arguments), count, join=False, start_method="spawn")
        try:
            while not context.join():
                pass
        except KeyboardInterrupt:
            for process in context.processes:
                process.terminate()
            for process in context.processes:
                process.join()
            raise
        except ProcessException as exc:
            why = str(exc).strip().splitlines()[-1][:200]
            raise Ad2Error(f"a process of the training ended ({why}); the same command resumes") from None
        for error in Path(folder).glob("error-*"):
            raise Ad2Error(error.read_text("utf-8"))


def _join(rank: int, count: int, folder: str, work: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")  # slower by less than noise
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "OMP_NUM_THREADS": 1}
    os.environ |= {name: str(value) for name, value in place.items()}  # read by accelerate
    meeting = (Path(folder) / "group").as_uri()
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
    try:
        work(*arguments)
    except Ad2Error as exc:
        (Path(folder) / f"error-{rank}").write_text(str(exc), "utf-8")
    torch.distributed.destroy_process_group()


@contextmanager
def _interrupts_noted(watch: TrainingWatch) -> Iterator[None]:
    """Note SIGINT and SIGTERM during the block and call their handlers after it; other actions stay."""
    if threading.current_thread() is not threading.main_thread():  # no signal interrupts it
        yield
        return

    def note(number: int, frame: Any) -> None:
        watch.interrupt = number

    handlers = {number: handler for number in INTERRUPTS if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if watch.interrupt is not None:
        signal.raise_signal(watch.interrupt)


def scheduled(step: int, steps: int, warm_up: float) -> float:
    """Share of the learning rate: linear warm-up, then half a cosine to 0."""
    warm = max(1, math.ceil(warm_up * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def _parameters(model: torch.nn.Module, decay: float) -> list[dict[str, Any]]:
    """Those with weight decay, and those without."""
    groups: dict[bool, list[torch.nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        groups[parameter.ndim >= 2 and not any(word in name for word in NO_DECAY)].append(parameter)
    return [{"params": groups[True], "weight_decay": decay}, {"params": groups[False], "weight_decay": 0.0}]
