"""Page 01-order: attention cannot see order, and what lets it.

Sources: the paper's Eq. 1 and the notes on permutation equivariance.
"""

import torch
import torch.nn.functional as F
from torch import Generator

from rollpe import textbook
from rollpe.equations.cases import count, error, must_fail, normal, number, permutation
from rollpe.equations.registry import check

PAGE = "01-order"


def _tokens(rng: Generator, *lead: int):
    """Tokens X [*lead, N, D] and three weight matrices, with N, D and the head's width all different."""
    N, D, d, m = count(rng, 3, 7), count(rng, 8, 10), count(rng, 2, 4), count(rng, 5, 6)
    scale = D**-0.5  # scores of order one: no single key takes all the attention
    return normal(rng, *lead, N, D), *(normal(rng, D, width) * scale for width in (d, d, m))


@check(
    "eq-attention",
    page=PAGE,
    source="paper Eq. 1",
    title="Softmax attention",
    tex=r"\operatorname{Attn}(Q, K, V) = \operatorname{softmax}\!\left(\frac{QK^\top}{\sqrt{d}}\right) V",
    implements=textbook.attention,
    tolerance=1e-12,
)
def eq_attention(rng):
    B, N, d, m = 2, count(rng, 3, 6), count(rng, 1, 9), count(rng, 1, 4)
    q, k, v = normal(rng, B, N, d), normal(rng, B, N, d), normal(rng, B, N, m)
    return error(textbook.attention(q, k, v), F.scaled_dot_product_attention(q, k, v))


@check(
    "eq-softmax",
    page=PAGE,
    source="order and equivariance, softmax row by row",
    title="Softmax of each row",
    tex=r"\operatorname{softmax}(A)_{ij} = \frac{e^{A_{ij}}}{\sum_{l} e^{A_{il}}}",
    implements=textbook.softmax,
    tolerance=1e-12,
)
def eq_softmax(rng):
    N = count(rng, 2, 6)
    A = normal(rng, 2, N, N + 1)
    rows = torch.stack([torch.stack([torch.exp(a) / sum(torch.exp(b) for b in a) for a in M]) for M in A])
    far = A + 1000 * normal(rng, 2, N, 1)  # the same rows, shifted to where e^A overflows
    return max(error(textbook.softmax(A), rows), error(textbook.softmax(far), torch.softmax(far, -1)))


@check(
    "eq-self-attention",
    page=PAGE,
    source="paper Sec. 2; order and equivariance",
    title="Queries, keys and values from the tokens",
    tex=r"Q = X W_Q, \quad K = X W_K, \quad V = X W_V",
    implements=textbook.self_attention,
    tolerance=1e-12,
)
def eq_self_attention(rng):
    X, W_Q, W_K, W_V = _tokens(rng, 2)
    q, k, v = (torch.einsum("bnd,de->bne", X, W) for W in (W_Q, W_K, W_V))
    return error(textbook.self_attention(X, W_Q, W_K, W_V), F.scaled_dot_product_attention(q, k, v))


@check(
    "eq-permutation",
    page=PAGE,
    source="equivariance, permutation equivariance",
    title="A permutation of the tokens as a matrix",
    tex=(
        r"\begin{gathered} (PX)_i = X_{\pi(i)}, \qquad P^\top P = I, \\ "
        r"P_{ij} = [\, j = \pi(i) \,] \end{gathered}"
    ),
    implements=textbook.permutation_matrix,
    tolerance=0.0,
)
def eq_permutation(rng):
    X = _tokens(rng)[0]
    order = permutation(rng, len(X))
    P = textbook.permutation_matrix(order)
    return max(error(P @ X, X[order]), error(P.T @ P, torch.eye(len(X), dtype=X.dtype)))


@check(
    "eq-scores-permuted",
    page=PAGE,
    source="equivariance, permutation equivariance",
    title="Permuted tokens permute rows and columns of the scores",
    tex=r"(PQ)(PK)^\top = P \, QK^\top P^\top",
    implements=textbook.permutation_matrix,
    tolerance=1e-12,
)
def eq_scores_permuted(rng):
    N, d = count(rng, 3, 7), count(rng, 2, 5)
    q, k, order = normal(rng, N, d), normal(rng, N, d), permutation(rng, N)
    P = textbook.permutation_matrix(order)
    lopsided = must_fail(error(q @ k.T, k @ q.T), least=1e-6)  # it takes no symmetric scores
    return error(P @ q @ k.T @ P.T, q[order] @ k[order].T) + lopsided


@check(
    "eq-softmax-permuted",
    page=PAGE,
    source="equivariance, permutation equivariance",
    title="Softmax commutes with permuting rows and columns",
    tex=r"\operatorname{softmax}(P A P^\top) = P \operatorname{softmax}(A) P^\top",
    implements=(textbook.softmax, textbook.permutation_matrix),
    tolerance=1e-12,
)
def eq_softmax_permuted(rng):
    N = count(rng, 3, 7)
    A, order = normal(rng, N, N), permutation(rng, N)
    P = textbook.permutation_matrix(order)
    return error(textbook.softmax(P @ A @ P.T), torch.softmax(A, -1)[order][:, order])


@check(
    "eq-permutation-equivariance",
    page=PAGE,
    source="equivariance, permutation equivariance",
    title="Attention is permutation equivariant",
    tex=r"\operatorname{Attn}(PX) = P \operatorname{Attn}(X)",
    implements=(textbook.self_attention, textbook.permutation_matrix),
    tolerance=1e-12,
)
def eq_permutation_equivariance(rng):
    X, *weights = _tokens(rng)
    order = permutation(rng, len(X))
    P = textbook.permutation_matrix(order)
    there, here = textbook.self_attention(P @ X, *weights), textbook.self_attention(X, *weights)
    return error(there, here[order]) + must_fail(error(there, here), least=1e-6)  # equivariant, not invariant


@check(
    "eq-pooled",
    page=PAGE,
    source="consequence of permutation equivariance",
    title="The pooled output does not see the order at all",
    tex=(
        r"\tfrac{1}{N} \mathbf{1}^\top \operatorname{Attn}(PX) = \tfrac{1}{N} \mathbf{1}^\top "
        r"\operatorname{Attn}(X)"
    ),
    implements=textbook.self_attention,
    tolerance=1e-12,
)
def eq_pooled(rng):
    X, *weights = _tokens(rng)
    shuffled = X[permutation(rng, len(X))]
    return error(
        textbook.self_attention(shuffled, *weights).mean(0), textbook.self_attention(X, *weights).mean(0)
    )


@check(
    "eq-added",
    page=PAGE,
    source="order and equivariance, absolute encodings",
    title="A code that is added to the tokens breaks the symmetry",
    tex=(
        r"\begin{gathered} x_p \mapsto x_p + c_p, \\ "
        r"\operatorname{Attn}(PX + C) \neq P \operatorname{Attn}(X + C) \end{gathered}"
    ),
    implements=textbook.self_attention,
    tolerance=0.0,
)
def eq_added(rng):
    X, *weights = _tokens(rng)
    C, order = normal(rng, *X.shape), permutation(rng, len(X))
    moved = textbook.self_attention(X[order] + C, *weights)
    return must_fail(error(moved, textbook.self_attention(X + C, *weights)[order]), least=1e-6)


@check(
    "eq-blind-bias",
    page=PAGE,
    source="consequence of permutation equivariance",
    title="The only added biases that stay blind to the order",
    tex=(
        r"\begin{aligned} & \operatorname{softmax}(PAP^\top + \beta) \\ "
        r"& \quad = P \operatorname{softmax}(A + \beta) P^\top \ \text{ for all } A, P \\ "
        r"& \Longleftrightarrow \quad \beta = aI + u\mathbf{1}^\top \end{aligned}"
    ),
    implements=(textbook.softmax, textbook.permutation_matrix),
    tolerance=1e-12,
)
def eq_blind_bias(rng):
    N = count(rng, 3, 7)
    A, u, order = normal(rng, N, N), normal(rng, N, 1), permutation(rng, N)
    i, j = order[:2].tolist()

    def differs(bias, order):
        P = textbook.permutation_matrix(order)
        return error(textbook.softmax(P @ A @ P.T + bias), P @ textbook.softmax(A + bias) @ P.T)

    blind = number(rng, -2, 2) * torch.eye(N, dtype=A.dtype) + u
    almost = blind.clone()
    almost[i, j] += 1  # one pair is treated differently: some exchange of two tokens tells
    exchanges = []
    for k in set(range(N)) - {j}:
        swap = torch.arange(N)
        swap[[j, k]] = swap[[k, j]]
        exchanges.append(differs(almost, swap))
    return differs(blind, order) + must_fail(max(exchanges), least=1e-6)
