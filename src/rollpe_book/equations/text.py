"""How well a model predicts text.

Source: Shannon's code lengths; the loss of all language models.
"""

import math

import torch
import torch.nn.functional as F

from rollpe import textbook
from rollpe_book.equations.cases import error
from rollpe_book.equations.registry import check


@check("ours; code length per character, Shannon 1948", textbook.softmax, tolerance=1e-12)
def eq_bits(rng):
    N, classes = rng.count(3, 9), rng.count(2, 12)
    logits, text = rng.normal(N, classes), rng.whole(0, classes - 1, N)
    product = textbook.softmax(logits)[torch.arange(N), text].prod()
    yield error(-product.log2() / N, F.cross_entropy(logits, text) / math.log(2))
