"""Bounds of line sets by other means: series in arbitrary precision, linear programs, all pairs."""

import math
from itertools import product

import mpmath
import numpy as np
from scipy.optimize import linprog


def jacobi(degree, a, b, x):
    """Jacobi polynomial that is 1 at 1, by mpmath's hypergeometric series."""
    return mpmath.jacobi(degree, a, b, x) / mpmath.jacobi(degree, a, b, 1)


def sphere_bound(dim, epsilon):
    """Levenshtein's spherical bound as it is printed, halved."""
    s, a, d = mpmath.mpf(epsilon), mpmath.mpf(dim - 3) / 2, dim
    j = next(j for j in range(1, 10**6) if mpmath.jacobi(j, a + 1, a + 1, s) <= 0)
    before, here, after = (jacobi(i, a, a, s) for i in (j - 1, j, j + 1))
    if mpmath.jacobi(j, a + 1, a, s) <= 0:  # ε ≤ t_j^{1,0}
        bracket = mpmath.mpf(2 * j + d - 3) / (d - 1) - (before - here) / ((1 - s) * here)
        return mpmath.binomial(j + d - 3, j - 1) * bracket / 2
    bracket = mpmath.mpf(2 * j + d - 1) / (d - 1) - (1 + s) * (here - after) / ((1 - s) * (here + after))
    return mpmath.binomial(j + d - 2, j) * bracket / 2


def lines_bound(dim, epsilon):
    """His bound for polynomial spaces, (1 − Q_{k−1}^{1,e} / Q_k^{0,e}) Σ r_i, by the projective polynomials."""
    x, a = 2 * mpmath.mpf(epsilon) ** 2 - 1, mpmath.mpf(dim - 3) / 2
    for k, e in product(range(1, 10**6), (0, 1)):
        b = e - mpmath.mpf(1) / 2
        if mpmath.jacobi(k, a + 1, b, x) <= 0:
            dimension = sum(harmonics(dim, 2 * i + e) for i in range(k))
            return (1 - jacobi(k - 1, a + 1, b, x) / jacobi(k, a, b, x)) * dimension
    raise AssertionError


def harmonics(dim, i):
    """Dimension of the spherical harmonics of degree i."""
    return math.comb(i + dim - 1, i) - (math.comb(i + dim - 3, i - 2) if i >= 2 else 0)


def linear_program(dim, epsilon, degrees, lowest):
    """Delsarte's bound: the least f(1) of f = 1 + Σ f_i P_i, f_i ≥ 0, with f ≤ 0 on [lowest, ε], on a grid."""
    grid = np.sort(epsilon - (epsilon - lowest) * np.linspace(0, 1, 3001) ** 2)
    p = [np.ones_like(grid), grid]
    for i in range(1, max(degrees)):
        p.append(((2 * i + dim - 2) * grid * p[i] - i * p[i - 1]) / (i + dim - 2))
    A = np.stack([p[i] for i in degrees], axis=1)
    scale = np.abs(A).max(axis=0)
    found = linprog(1 / scale, A_ub=A / scale, b_ub=-np.ones_like(grid), bounds=(0, None), method="highs")
    assert found.success, found.message
    return 1 + found.fun


def coherence(vectors):
    U = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    G = np.abs(U @ U.T)
    np.fill_diagonal(G, 0)
    return G.max()
