"""Scoring a model on images or text that it was not trained on."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rollpe.encodings import grid_positions, scale_positions
from rollpe.vit import VisionTransformer
from rollpe_lab.records.record import FinalMetrics, pack_bits
from rollpe_lab.training.augment import normalize
from rollpe_lab.training.compiling import EAGER, CompileMode, compiled
from rollpe_lab.training.data import Data, ImageData, Split, TextData
from rollpe_lab.training.datasets import CLOUDS
from rollpe_lab.training.device import TrainingError
from rollpe_lab.training.recipe import Recipe
from rollpe_lab.training.step import predictor
from rollpe_lab.training.watch import (
    Model,
    channel_frame,
    fewer_waves,
    gradients,
    observe,
    token_rms,
)

OBSERVED = 256
"""Test images over which attention, spectra and roughness are averaged, training images of the first
gradient, and images of a frame; fewer if there are no more."""
EVALUATION_BATCH = {"cpu": 100}  # what its caches hold; 1,000 elsewhere
CHARACTERS = {"cpu": 2**13}  # likewise; 2¹⁸ elsewhere


class Evaluator:
    """Scores a model on the images of one data set, never augmented.

    Where training is compiled, so is scoring at the size of training, in batches of one shape. Other sizes
    are evaluated once, which takes less time than compiling for them.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: Data,
        device: torch.device,
        mode: CompileMode = EAGER,
    ) -> None:
        self.recipe, self.data, self.device, self.mode = recipe, data, device, mode
        self.compiled: Callable[[Tensor], Tensor] | None = None  # of the one model that is trained

    @torch.no_grad()
    def __call__(self, model: nn.Module, split: Split, size: int | None = None) -> FinalMetrics:
        """Loss and accuracy on a split, its images resized to `size` pixels if given.

        Resizing is bilinear and antialiased. A larger image is a larger grid of patches of the
        same size, so its positions go beyond those of training.
        """
        model.eval()
        batch = EVALUATION_BATCH.get(self.device.type, 1000)
        predict, shape = predictor(model, self.recipe, self.device), 0
        if self.mode.gradient and size is None and len(split) >= batch:
            self.compiled = self.compiled or compiled(predict, self.mode.gradient)
            predict, shape = self.compiled, batch
        loss = torch.zeros((), device=self.device)
        correct = torch.zeros(len(split), device=self.device)
        for start in range(0, len(split), batch):
            rows = slice(start, min(start + batch, len(split)))
            labels = split.labels[rows].to(self.device)
            images = self.prepare(split.images[rows], size)
            missing = max(0, shape - len(labels))
            padded = F.pad(images, (0,) * 7 + (missing,)) if missing else images
            if self.mode.graphs:
                torch.compiler.cudagraph_mark_step_begin()
            logits = predict(padded).unflatten(0, (len(padded), -1)).mean(1)[: len(labels)]
            loss += F.cross_entropy(logits, labels, reduction="sum")
            correct[rows] = (logits.argmax(1) == labels).float()
        return self._metrics(loss, correct)

    def _metrics(self, loss: Tensor, correct: Tensor) -> FinalMetrics:
        """From the sum of all losses, and 1 for each image or character that was right."""
        nats = loss.item()
        if not math.isfinite(nats):
            raise TrainingError(
                "the loss on images not trained on is not finite. Try a lower learning_rate "
                f"than {self.recipe.learning_rate:g}."
            )
        bits = correct.cpu().numpy() > 0.5
        return FinalMetrics(
            loss=nats / len(bits),
            accuracy=float(bits.mean()),
            images=len(bits),
            correct=pack_bits(bits),
        )

    def prepare(self, images: Tensor, size: int | None = None) -> Tensor:
        """Bytes [B, channels, H, W] to what the model sees: on its device, resized, normalized."""
        assert isinstance(self.data, ImageData)
        resized = (size, size) if size else None
        return normalize(images.to(self.device), self.data.mean, self.data.std, resized)

    def observe(self, model: Model) -> dict[str, np.ndarray]:
        """Attention and channels of a trained model; of a recipe with frames, its loss with fewer waves too.

        See `observe` and `fewer_waves` in `rollpe_lab.training.watch`. slow_waves, strong_waves
        [modes]: the loss with the slowest waves, and with those of most power in queries times that in keys.
        """
        images, labels = self._some(self.data.test)
        found = observe(model, images)
        if not self.recipe.frames:
            return found
        power = torch.from_numpy(found["query_spectrum"] * found["key_spectrum"])
        slow, strong = (fewer_waves(model, images, labels, by) for by in (None, power))
        return found | {"slow_waves": slow.cpu().numpy(), "strong_waves": strong.cpu().numpy()}

    def frame(self, model: Model) -> dict[str, Tensor]:
        """Channels, gradients and sizes of tokens at one moment: `channel_frame`, `gradients`, `token_rms`.

        On images that are held out or, if none is, on training images: training never looks at test images.
        """
        seen = self.data.held_out if len(self.data.held_out) else self.data.train
        found = {f"frame_{key}": value for key, value in self.gradients(model, seen).items()}
        images, _ = self._some(seen)
        return found | {"frames": channel_frame(model, images), "frame_token_rms": token_rms(model, images)}

    def gradients(self, model: Model, split: Split) -> dict[str, Tensor]:
        """Gradients for queries and keys, see `rollpe_lab.training.watch.gradients`."""
        return gradients(model, *self._some(split), self.recipe.label_smoothing)

    def _some(self, split: Split) -> tuple[Tensor, Tensor]:
        return self.prepare(split.images[:OBSERVED]), split.labels[:OBSERVED].to(self.device)

    def precompile(self, model: nn.Module) -> None:
        """Compile the scoring of a batch."""
        one = Split(self.data.train.images[:1], self.data.train.labels[:1])
        rows = torch.zeros(EVALUATION_BATCH.get(self.device.type, 1000), dtype=torch.long)
        self(model, Split(one.images[rows], one.labels[rows]))

    def rehearse(self, model: nn.Module, sizes: list[int]) -> None:
        """See one image at every size now: a size the encoding refuses must not cost a run."""
        one = Split(self.data.train.images[:1], self.data.train.labels[:1])
        for size in (None, *sizes):
            self(model, one, size)


def evaluator(recipe: Recipe, data: Data, device: torch.device, mode: CompileMode = EAGER) -> Evaluator:
    """The evaluator of a data set."""
    kind = TextEvaluator if isinstance(data, TextData) else Evaluator
    kind = CloudEvaluator if data.name in CLOUDS else kind
    return kind(recipe, data, device, mode)


class ScaledPositions(nn.Module):
    """A vision transformer that sees an image of any size over the span of positions it was built for."""

    def __init__(self, model: VisionTransformer) -> None:
        super().__init__()
        self.model = model

    @classmethod
    def of(cls, model: Model) -> ScaledPositions | None:
        """None of a model of text, or of one whose encoding takes whole positions alone."""
        if not isinstance(model, VisionTransformer):
            return None
        encodings = model.token_encoding, model.attentions[0].encoding
        return cls(model) if all(encoding.real_positions for encoding in encodings) else None

    def forward(self, images: Tensor) -> Tensor:
        shown, built = self.model.grid_of(images), self.model.patch_embed.grid_size
        positions = grid_positions(*shown, device=images.device)
        logits: Tensor = self.model(images, scale_positions(positions, shown, built))
        return logits


class CloudEvaluator(Evaluator):
    """Scores a model on clouds of points: on no grid, so that nothing inside it is averaged by offset."""

    def observe(self, model: Model) -> dict[str, np.ndarray]:
        return {}

    def gradients(self, model: Model, split: Split) -> dict[str, Tensor]:
        return {}


class TextEvaluator(Evaluator):
    """Scores a language model on the windows of a text, at the length of training or longer."""

    @torch.no_grad()
    def losses(self, model: nn.Module, split: Split, length: int) -> tuple[Tensor, Tensor]:
        """Loss in nats of each character, float32 [N, length], and 1 where it was the most probable one.

        The windows are cut anew: the same characters are predicted whatever the length, each from all
        characters before it in its window.
        """
        model.eval()
        predict = predictor(model, self.recipe, self.device)
        count = split.images.numel() // length
        windows, labels = (
            x.flatten()[: count * length].view(count, length) for x in (split.images, split.labels)
        )
        loss = torch.zeros(count, length, device=self.device)
        right = torch.zeros(count, length, device=self.device)
        batch = max(1, CHARACTERS.get(self.device.type, 2**18) // length)
        for start in range(0, count, batch):
            rows = slice(start, min(start + batch, count))
            targets = labels[rows].to(self.device).flatten()
            logits = predict(self.prepare(windows[rows]))
            loss[rows] = F.cross_entropy(logits, targets, reduction="none").view(-1, length)
            right[rows] = (logits.argmax(1) == targets).view(-1, length).float()
        return loss, right

    def __call__(self, model: nn.Module, split: Split, size: int | None = None) -> FinalMetrics:
        """Loss and accuracy of the next character, in windows of `size` characters if given."""
        loss, right = self.losses(model, split, size or split.images.shape[1])
        return self._metrics(loss.double().sum(), right.flatten())

    def prepare(self, images: Tensor, size: int | None = None) -> Tensor:
        return images.to(self.device).long()

    def observe(self, model: Model) -> dict[str, np.ndarray]:
        """As of images, and the mean loss in nats by position in the longest windows, `loss_by_position`."""
        assert isinstance(self.data, TextData)
        loss, _ = self.losses(model, self.data.test, max((self.data.context, *self.recipe.resolutions)))
        return super().observe(model) | {"loss_by_position": loss.mean(0).cpu().numpy()}

    def rehearse(self, model: nn.Module, sizes: list[int]) -> None:
        """One window at every length."""
        assert isinstance(self.data, TextData)
        for size in (self.data.context, *sizes):
            few = -(-size // self.data.context)
            self(model, Split(self.data.train.images[:few], self.data.train.labels[:few]), size)
