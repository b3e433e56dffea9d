"""Scores that see the offset j − i, and decoding with a cache.

Sources: the introductions order and equivariance (after Shaw et al. 2018 and Raffel et al. 2020), corrected
where they slip.
"""

import math

import torch
import torch.nn.functional as F
from scipy.linalg import toeplitz

from rollpe import textbook
from rollpe.encodings.relative import Shaw, with_ones, with_products
from rollpe_book.equations.cases import Draw, entrywise, error, must_hold
from rollpe_book.equations.registry import check


def _sequence(rng: Draw, *lead: int):
    """q, k [*lead, N, d], v [*lead, N, m]."""
    N, d, m = rng.count(3, 7), rng.count(2, 5), rng.count(6, 8)
    return rng.normal(*lead, N, d), rng.normal(*lead, N, d), rng.normal(*lead, N, m)


def _vectors(table, n: int):
    """R_ij for the n tokens of a sequence, [n, n, d]."""
    return textbook.relative_lookup(table, textbook.offsets(torch.arange(n)))


def _offset(i: int, j: int, K: int) -> int:
    """The row of a table of offsets −K … K that belongs to query i and key j."""
    return min(max(j - i, -K), K) + K


@check("equivariance, relative position", textbook.relative_lookup, textbook.offsets, tolerance=0.0)
def eq_toeplitz(rng):
    n = rng.count(2, 8)
    b = rng.normal(2 * n - 1)  # offsets −(n−1) … n−1
    B = textbook.relative_lookup(b, textbook.offsets(torch.arange(n)))
    expected = toeplitz(b[:n].flip(0).numpy(), b[n - 1 :].numpy())
    yield error(B, expected)
    yield error(B[1:, 1:], B[:-1, :-1])


@check(
    "equivariance, relative positional encoding (Shaw)",
    textbook.shaw_scores,
    textbook.relative_lookup,
    tolerance=1e-12,
)
def eq_shaw(rng):
    q, k, _ = _sequence(rng, 2)
    (_, N, d), K = q.shape, rng.count(1, 4)
    table = rng.normal(2 * K + 1, d)

    slow = entrywise(lambda i, j: (q[:, i] * (k[:, j] + table[_offset(i, j, K)])).sum(-1), N, N)
    yield error(textbook.shaw_scores(q, k, _vectors(table, N)), slow / math.sqrt(d))


@check("equivariance, bounded window", textbook.relative_lookup, textbook.offsets, tolerance=0.0)
def eq_shaw_clip(rng):
    n, K, d = rng.count(4, 9), rng.count(0, 4), rng.count(1, 3)
    table = rng.normal(2 * K + 1, d)
    slow = entrywise(lambda i, j: table[_offset(i, j, K)], n, n)
    yield error(_vectors(table, n), slow.movedim(0, -1))


@check("equivariance, shift invariance", textbook.shaw_scores, textbook.relative_lookup, tolerance=1e-12)
def eq_shaw_shift(rng):
    q, k, _ = _sequence(rng)
    (N, d), K, shift = q.shape, rng.count(1, 4), rng.count(1, 3)
    table, before, after = rng.normal(2 * K + 1, d), rng.normal(shift, d), rng.normal(2, d)
    wide_q, wide_k = torch.cat((before, q, after)), torch.cat((before, k, after))
    longer = textbook.shaw_scores(wide_q, wide_k, _vectors(table, len(wide_q)))
    inner = slice(shift, shift + N)
    yield error(longer[inner, inner], textbook.shaw_scores(q, k, _vectors(table, N)))


@check(
    "the usual way to compute Shaw's term without an N × N × d tensor",
    textbook.shaw_scores,
    textbook.relative_lookup,
    tolerance=1e-12,
)
def eq_shaw_gather(rng):
    q, k, _ = _sequence(rng)
    (N, d), K = q.shape, rng.count(1, 8)  # tables that end within the sequence, and longer ones
    table = rng.normal(2 * K + 1, d)
    i = torch.arange(N)
    gathered = (q @ table.T).gather(1, (i - i[:, None]).clamp(-K, K) + K)
    yield error(textbook.shaw_scores(q, 0 * k, _vectors(table, N)) * math.sqrt(d), gathered)


@check(
    "ours; the sum over axes as the decomposed relative positions of MViTv2 (Li et al. 2022)",
    Shaw,
    tolerance=1e-12,
)
def eq_shaw_grid(rng):
    rows, columns, d, K = (rng.count(1, 4) for _ in range(4))
    d, places = d + 3, [(y, x) for y in range(rows) for x in range(columns)]
    q, k = rng.normal(2, len(places), d)
    shaw = Shaw(head_dim=d, heads=1, axes=2, clip=K).double()
    shaw.requires_grad_(False).keys.copy_(rng.normal(2, 1, 2 * K + 1, d))

    def score(i, j):
        down, right = (shaw.keys[a, 0, _offset(places[i][a], places[j][a], K)] for a in (0, 1))
        return q[i] @ (k[j] + down + right)

    where = torch.tensor(places, dtype=torch.float64)
    ones, *matrices = shaw.precompute(where, q[None], (rows, columns)).tables
    wide_q, wide_k = with_products(q[None, None], matrices), with_ones(k[None, None], ones)
    yield error((wide_q @ wide_k.mT)[0, 0], entrywise(score, len(places), len(places)))
    yield must_hold(wide_q.shape[-1] == d + rows + columns)  # a channel for each row and each column


@check("order, keys and values", textbook.shaw_attention, textbook.relative_lookup, tolerance=1e-12)
def eq_shaw_values(rng):
    q, k, v = _sequence(rng, 2)
    (_, N, d), m, K = q.shape, v.shape[-1], rng.count(1, 4)
    keys, values = rng.normal(2 * K + 1, d), rng.normal(2 * K + 1, m)
    slow = torch.zeros_like(v)
    for i in range(N):
        rows = [_offset(i, j, K) for j in range(N)]
        alpha = torch.softmax(((k + keys[rows]) * q[:, i : i + 1]).sum(-1) / math.sqrt(d), dim=-1)
        slow[:, i] = (alpha[..., None] * (v + values[rows])).sum(1)
    yield error(textbook.shaw_attention(q, k, v, _vectors(keys, N), _vectors(values, N)), slow)


@check(
    "circles and equivariance, after Raffel et al. 2020",
    textbook.t5_scores,
    textbook.t5_bucket,
    tolerance=1e-12,
)
def eq_t5(rng):
    q, k, _ = _sequence(rng, 2)
    (_, N, d), buckets, reach = q.shape, 4 * rng.count(1, 4), rng.count(5, 40)
    bias = rng.normal(buckets)

    def score(i, j):
        return (q[:, i] * k[:, j]).sum(-1) / math.sqrt(d) + bias[_bucket(j - i, buckets, reach)]

    near = textbook.t5_bucket(textbook.offsets(torch.arange(N)), buckets, reach)
    yield error(textbook.t5_scores(q, k, bias[near]), entrywise(score, N, N))
    far_q, far_k, far_bias = rng.normal(140, 2), rng.normal(140, 2), rng.normal(32)
    wide = textbook.t5_bucket(textbook.offsets(torch.arange(140)))
    far = textbook.t5_scores(far_q, far_k, far_bias[wide]) - far_q @ far_k.T / math.sqrt(2)
    yield error(far[:, -1], entrywise(lambda i: far_bias[_bucket(139 - i, 32, 128)], 140))


def _bucket(delta: int, buckets: int, reach: int) -> int:
    """T5's bucket in integers only: |Δ| has passed threshold j of e·(D/e)^{j/w} or it has not."""
    half, exact = buckets // 2, buckets // 4
    a, w = abs(delta), half - exact
    if a >= exact:
        a = exact + sum(abs(delta) ** w >= exact ** (w - j) * reach**j for j in range(1, w + 1))
    return min(a, half - 1) + half * (delta > 0)


@check("Press et al. 2022, section 3", textbook.alibi_scores, textbook.alibi_slopes, tolerance=1e-12)
def eq_alibi(rng):
    H, N, d = 2 ** rng.count(0, 5), rng.count(2, 6), rng.count(1, 5)
    q, k = rng.normal(2, H, N, d)
    ratio = torch.tensor(2 ** (-8 / H), dtype=torch.float64)
    slopes = ratio.expand(H).cumprod(0)  # a geometric sequence that starts at its own ratio

    def score(h, i, j):
        return q[h, i] @ k[h, j] / math.sqrt(d) - slopes[h] * abs(i - j)

    delta = textbook.offsets(torch.arange(N))
    yield error(textbook.alibi_scores(q, k, delta, textbook.alibi_slopes(H)), entrywise(score, H, N, N))


@check("Raffel et al. 2020, as their code computes it", textbook.t5_bucket, tolerance=0.0)
def eq_t5_bucket(rng):
    buckets = 4 * rng.count(1, 10)
    reach = buckets // 4 + rng.count(1, 60)
    delta = torch.cat((torch.arange(-150, 151), rng.whole(-5000, 5000, 20)))

    def stated(delta, *sizes):
        return [_bucket(int(a), *sizes) for a in delta]

    found = textbook.t5_bucket(delta, buckets, reach)
    one_way = textbook.t5_bucket(delta, buckets, reach + buckets, bidirectional=False)
    yield error(textbook.t5_bucket(delta), stated(delta, 32, 128))
    yield error(textbook.t5_bucket(delta, buckets), stated(delta, buckets, 128))
    yield error(found, stated(delta, buckets, reach))
    yield error(one_way, stated(delta.clamp(max=0), 2 * buckets, reach + buckets))
    yield must_hold(found.dtype == one_way.dtype == torch.int64)


@check("equivariance, key–value cache", textbook.decode, tolerance=1e-12)
def eq_cache(rng):
    q, k, v = _sequence(rng)
    yield error(textbook.decode(q, k, v), F.scaled_dot_product_attention(q, k, v, is_causal=True))


@check(
    "equivariance, corrected: it says that relative encodings cannot use a cache",
    textbook.decode,
    textbook.shaw_scores,
    tolerance=1e-12,
)
def eq_cache_shaw(rng):
    q, k, v = _sequence(rng)
    (N, d), K = q.shape, rng.count(1, 4)
    table = rng.normal(2 * K + 1, d)
    later = torch.ones(N, N, dtype=torch.bool).triu(1)
    e = textbook.shaw_scores(q, k, _vectors(table, N))
    full = torch.softmax(e.masked_fill(later, -math.inf), -1) @ v
    yield error(textbook.decode(q, k, v, table), full)
