"""Faults that change no result: the reason, and what stands in a function only where the fault is in it.

A fragment of the changed source is enough, in one line, with a space for every line break; so edits to the
rest of the line leave these alone. By function, for `mutants.py`.
"""

EQUIVALENT: dict[str, dict[str, str]] = {
    "rollpe.operators._real": {
        "device=device)).mT": "a number has no axes",
        "device and p.device": "all tests run on one device",
    },
    "rollpe.operators.fourier_matrix": {"/ math.sqrt(n)).mT": "F is symmetric"},
    "rollpe.operators.generator_closed_form": {"math.pi / n / torch.cos": "cos(πd) is its own reciprocal"},
    "rollpe.operators.ring_laplacian": {"- S.T).mT": "the Laplacian is symmetric"},
    "rollpe.operators.sheet_laplacian": {"ring_laplacian(width))).mT": "the Laplacian is symmetric"},
    "rollpe.operators.roll_kernel": {
        "remainder(t - n / 2": "n/2 and −n/2 are the same modulo n",
        "t == 0, 1.5": "a stand-in that the next torch.where replaces",
        "t == 0, (-0.5)": "a stand-in that the next torch.where replaces",
    },
    "rollpe.operators.rotation_form": {"values >= 1e-9": "no eigenvalue is on the threshold"},
    "rollpe.textbook.bit_flips": {"~p | (p + 1)": "it is the negative of the same power of 2"},
    "rollpe.textbook.decay_bound": {"exp((-1j)": "conjugate sums have the same modulus"},
    "rollpe.textbook.t5_bucket": {"buckets: int = 33": "33 // 2 is 16, as is 32 // 2"},
}
