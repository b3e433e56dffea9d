"""Attention is blind to order, and what changes that.

Sources: the paper's Eq. 1 and the notes on permutation equivariance.
"""

import torch
import torch.nn.functional as F

from rollpe import textbook
from rollpe_book.equations.cases import Draw, error, eye, must_fail
from rollpe_book.equations.registry import check

PERMUTED, FOLLOWS = "equivariance, permutation equivariance", "consequence of permutation equivariance"


def _tokens(rng: Draw, *lead: int):
    """Tokens X [*lead, N, D] and three weight matrices, with N, D and the head's width all different."""
    N, D, d, m = rng.count(3, 7), rng.count(8, 10), rng.count(2, 4), rng.count(5, 6)
    scale = D**-0.5  # scores of order one: no single key takes all the attention
    return rng.normal(*lead, N, D), *(rng.normal(D, width) * scale for width in (d, d, m))


@check("paper Eq. 1", textbook.attention, textbook.scores, tolerance=1e-12)
def eq_attention(rng):
    B, N, d, m = 2, rng.count(3, 6), rng.count(1, 9), rng.count(1, 4)
    q, k, v = rng.normal(B, N, d), rng.normal(B, N, d), rng.normal(B, N, m)
    yield error(textbook.attention(q, k, v), F.scaled_dot_product_attention(q, k, v))


@check("order and equivariance, softmax row by row", textbook.softmax, tolerance=1e-12)
def eq_softmax(rng):
    N = rng.count(2, 6)
    A = rng.normal(2, N, N + 1)
    rows = torch.stack([torch.stack([torch.exp(a) / sum(torch.exp(b) for b in a) for a in M]) for M in A])
    far = A + 1000 * rng.normal(2, N, 1)  # the same rows, shifted to where e^A overflows
    yield error(textbook.softmax(A), rows)
    yield error(textbook.softmax(far), torch.softmax(far, -1))


@check("paper Sec. 2; order and equivariance", textbook.self_attention, tolerance=1e-12)
def eq_self_attention(rng):
    X, W_Q, W_K, W_V = _tokens(rng, 2)
    q, k, v = (torch.einsum("bnd,de->bne", X, W) for W in (W_Q, W_K, W_V))
    yield error(textbook.self_attention(X, W_Q, W_K, W_V), F.scaled_dot_product_attention(q, k, v))


@check(PERMUTED, textbook.permutation_matrix, tolerance=0.0)
def eq_permutation(rng):
    X = _tokens(rng)[0]
    order = rng.permutation(len(X))
    P = textbook.permutation_matrix(order)
    yield error(P @ X, X[order])
    yield error(P.T @ P, eye(len(X)))


@check(PERMUTED, textbook.permutation_matrix, tolerance=1e-12)
def eq_scores_permuted(rng):
    N, d = rng.count(3, 7), rng.count(2, 5)
    q, k, order = rng.normal(N, d), rng.normal(N, d), rng.permutation(N)
    P = textbook.permutation_matrix(order)
    yield error(P @ q @ k.T @ P.T, q[order] @ k[order].T)
    yield must_fail(error(q @ k.T, k @ q.T), least=1e-6)  # it takes no symmetric scores


@check(PERMUTED, textbook.softmax, textbook.permutation_matrix, tolerance=1e-12)
def eq_softmax_permuted(rng):
    N = rng.count(3, 7)
    A, order = rng.normal(N, N), rng.permutation(N)
    P = textbook.permutation_matrix(order)
    yield error(textbook.softmax(P @ A @ P.T), torch.softmax(A, -1)[order][:, order])


@check(PERMUTED, textbook.self_attention, textbook.permutation_matrix, tolerance=1e-12)
def eq_permutation_equivariance(rng):
    X, *weights = _tokens(rng)
    order = rng.permutation(len(X))
    P = textbook.permutation_matrix(order)
    there, here = textbook.self_attention(P @ X, *weights), textbook.self_attention(X, *weights)
    yield error(there, here[order])
    yield must_fail(error(there, here), least=1e-6)  # equivariant, not invariant


@check(FOLLOWS, textbook.self_attention, tolerance=1e-12)
def eq_pooled(rng):
    X, *weights = _tokens(rng)
    shuffled = X[rng.permutation(len(X))]
    pooled, expected = (textbook.self_attention(tokens, *weights).mean(0) for tokens in (shuffled, X))
    yield error(pooled, expected)


@check("order and equivariance, absolute encodings", textbook.self_attention, tolerance=0.0)
def eq_added(rng):
    X, *weights = _tokens(rng)
    C, order = rng.normal(*X.shape), rng.permutation(len(X))
    moved = textbook.self_attention(X[order] + C, *weights)
    yield must_fail(error(moved, textbook.self_attention(X + C, *weights)[order]), least=1e-6)


@check(FOLLOWS, textbook.softmax, textbook.permutation_matrix, tolerance=1e-12)
def eq_blind_bias(rng):
    N = rng.count(3, 7)
    A, u, order = rng.normal(N, N), rng.normal(N, 1), rng.permutation(N)
    i, j = order[:2].tolist()

    def differs(bias, order):
        P = textbook.permutation_matrix(order)
        return error(textbook.softmax(P @ A @ P.T + bias), P @ textbook.softmax(A + bias) @ P.T)

    blind = rng.number(-2, 2) * eye(N) + u
    yield differs(blind, order)
    almost = blind.clone()
    almost[i, j] += 1  # one pair is treated differently: some exchange of two tokens shows it
    orders = [[{j: k, k: j}.get(a, a) for a in range(N)] for k in set(range(N)) - {j}]
    yield must_fail(max(differs(almost, torch.tensor(order)) for order in orders), least=1e-6)
