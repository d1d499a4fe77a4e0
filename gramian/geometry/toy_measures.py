"""What a trained toy model shows: its loss, which features it represents, and how their directions lie.

Represented features have norms near 1, so ‖W_i‖ > ½ tells them from the others.

Source: Y. Liu, Z. Liu, J. Gore, arXiv:2505.10465, §2–3.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gramian.geometry.baselines import welch_bound, welch_floor
from gramian.geometry.frequencies import Vector
from gramian.geometry.similarity import choose_products, cosine_moments, row_blocks
from gramian.geometry.sparse_features import LARGEST_VALUE
from gramian.geometry.superposition import NormStatistics, norm_statistics
from gramian.geometry.toy_model import Progress, ToyModel, Trained, train_toy_model
from gramian.geometry.toy_study import ToyCell
from gramian.geometry.toy_theory import MEAN_SQUARE_VALUE, ToyRegimeName, ignored_loss, toy_regime

LAST_STEPS = 100  # whose losses are averaged, as published
BLOCK_ROWS = 1024
REPRESENTED_NORM = 0.5


@dataclass(frozen=True)
class NormSplit:
    """Norms of represented and other rows; None where a side is empty.

    `between` is the share of the variance of all norms that lies between the two sides: 1 for norms of two values
    only, such as 0 and 1, and None where all norms are on one side.
    """

    represented: NormStatistics | None
    others: NormStatistics | None
    between: float | None


@dataclass(frozen=True)
class Equiangularity:
    """How near r unit vectors in m dimensions are to an equiangular tight frame, where every |cos| is the Welch bound.

    Attributes
    ----------
    rows : int
        r ≥ 2.
    welch : float
        √((r−m)/m(r−1)), 0 for r ≤ m.
    mean, std : float
        Of |cos| over all pairs: the Welch bound and 0 for such a frame, √(2/πm) and √((1−2/π)/m) for random vectors
        when m is large.
    """

    rows: int
    welch: float
    mean: float
    std: float


@dataclass(frozen=True, eq=False)
class ToyMeasurement:
    """One trained model.

    Attributes
    ----------
    features, dims : int
        n and m.
    loss, loss_std : float
        Mean and standard deviation of L over the last 100 steps; L is the published mean-squared error times n.
    represented : int
        Rows with ‖W_i‖ > ½.
    represented_fraction : float
        φ_½, their share.
    norms, norm_split : NormStatistics, NormSplit
        Of all rows, and of both kinds.
    mean_squared_overlap, overlap_times_dim : float
        m₂ over all pairs of rows that are not zero, and m·m₂: 1 for isotropic random directions.
    welch_floor : float
        The least possible m₂ of n rows.
    equiangularity : Equiangularity or None
        Of the represented rows; None with fewer than two.
    regime : ToyRegimeName
        See `toy_theory.toy_regime`.
    ignored_loss : float
        ⟨v²⟩ Σ p_i over i > φn: what weak superposition would lose if it kept the most frequent features.
    short_rows_loss : float
        The same sum over the features that are in fact not represented.
    dead : int
        Features whose output is 0 even when they alone are active at the largest value, 2‖W_i‖² + b_i ≤ 0. In strong
        superposition their rows still have norm 1, and crowd together: what they hold is of no use to any output.
    feature_loss : (n,) float32 array
        Squared error of the whole output when feature i alone is active, at its mean value 1.
    W : (n, m) float32 array
        Directions.
    """

    features: int
    dims: int
    loss: float
    loss_std: float
    represented: int
    represented_fraction: float
    norms: NormStatistics
    norm_split: NormSplit
    mean_squared_overlap: float
    overlap_times_dim: float
    welch_floor: float
    equiangularity: Equiangularity | None
    regime: ToyRegimeName
    ignored_loss: float
    short_rows_loss: float
    dead: int
    feature_loss: npt.NDArray[np.float32]
    W: npt.NDArray[np.float32]


def run_cell(cell: ToyCell, *, device: torch.device | None = None, progress: Progress | None = None) -> ToyMeasurement:
    """Train a cell and measure it; the cell's seed and the device determine the result up to rounding."""
    p = cell.probabilities()
    generator = torch.Generator(device or "cpu").manual_seed(cell.seed)
    trained = train_toy_model(
        p, cell.dims, weight_decay=cell.weight_decay, plan=cell.plan, generator=generator, progress=progress
    )
    return measure_toy_model(trained, p)


@torch.no_grad()
def measure_toy_model(trained: Trained, p: Vector) -> ToyMeasurement:
    """Measure a trained model of n features with activation probabilities p, (n,).

    Raises
    ------
    TooFewRows
        If training left fewer than two rows that are finite and not zero.
    """
    W, b = trained.model.W.detach(), trained.model.b.detach()  # (n, m), (n,)
    n, m = W.shape
    last = trained.losses[-LAST_STEPS:].to(torch.float64)
    moments = cosine_moments(row_blocks(W, rows=BLOCK_ROWS), dim=m, products=choose_products(n, m))
    norms = torch.linalg.vector_norm(W, dim=1, dtype=torch.float64)  # (n,)
    kept = norms > REPRESENTED_NORM
    represented = int(kept.sum())
    return ToyMeasurement(
        features=n,
        dims=m,
        loss=float(last.mean()),
        loss_std=float(last.std(correction=0)),
        represented=represented,
        represented_fraction=represented / n,
        norms=norm_statistics(norms),
        norm_split=split_norms(norms),
        mean_squared_overlap=moments.mean_square,
        overlap_times_dim=m * moments.mean_square,
        welch_floor=welch_floor(n, m),
        equiangularity=equiangularity(W[kept]) if represented >= 2 else None,
        regime=toy_regime(features=n, dims=m, represented=represented),
        ignored_loss=ignored_loss(p, represented),
        short_rows_loss=MEAN_SQUARE_VALUE * float(p[~kept.cpu().numpy()].sum()),
        dead=int((LARGEST_VALUE * norms.square() + b <= 0).sum()),
        feature_loss=feature_losses(trained.model).cpu().numpy(),
        W=W.cpu().numpy(),
    )


def split_norms(norms: Tensor) -> NormSplit:
    """Tell represented rows from others by their norms, (n,).

    Examples
    --------
    >>> split_norms(torch.tensor([1.0, 1.0, 0.0, 0.0])).between
    1.0
    """
    kept, others = norms[norms > REPRESENTED_NORM], norms[norms <= REPRESENTED_NORM]
    if not len(kept) or not len(others):
        return NormSplit(
            norm_statistics(kept) if len(kept) else None, norm_statistics(others) if len(others) else None, None
        )
    share = len(kept) / len(norms)
    between = share * (1 - share) * (kept.mean() - others.mean()) ** 2
    return NormSplit(norm_statistics(kept), norm_statistics(others), float(between / norms.var(correction=0)))


def equiangularity(W: Tensor) -> Equiangularity:
    """Mean and spread of |cos| over all pairs of the rows of W, (r, m), none of them zero, by blocks."""
    U = W.to(torch.float64)
    U = U / torch.linalg.vector_norm(U, dim=1, keepdim=True)  # (r, m)
    r, m = U.shape
    total = total_square = 0.0
    for block in torch.split(U, BLOCK_ROWS):
        cosines = block @ U.T  # (rows, r); holds each row's 1 with itself
        total += float(cosines.abs().sum())
        total_square += float(cosines.square().sum())
    pairs = r * (r - 1)
    mean, mean_square = (total - r) / pairs, (total_square - r) / pairs
    return Equiangularity(r, welch_bound(r, m), mean, sqrt(max(mean_square - mean**2, 0.0)))


@torch.no_grad()
def feature_losses(model: ToyModel) -> Tensor:
    """‖y(e_i) − e_i‖² for each feature i alone at value 1, (n,); a block of features at a time."""
    n = len(model.b)
    losses = []
    for rows in torch.split(torch.arange(n, device=model.b.device), BLOCK_ROWS):
        y = torch.addmm(model.b, model.W[rows], model.W.T).relu_()  # (rows, n): W W_i + b, as e_i W = W_i
        y[torch.arange(len(rows), device=y.device), rows] -= 1
        losses.append(y.square().sum(dim=1))
    return torch.cat(losses)
