"""The paper's figures on the toy model as studies: at full size as published, and reduced to minutes on two cores.

The reduced ones have n = 400 features for 1000, widths up to 40 for 100, 4000 steps of 512 samples for 20,000 of 2048.
`regimes` is not a figure: it shows both regimes where the statements about them hold best at this expense.

Source: Y. Liu, Z. Liu, J. Gore, arXiv:2505.10465, and liuyz0/SuperpositionScaling for the grids.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from gramian.geometry.frequencies import ExponentialLaw, LinearLaw, PowerLaw
from gramian.geometry.toy_study import ToyStudy, TrainingPlan

PresetName = Literal["fig3", "fig4", "fig5", "fig6", "fig7", "regimes"]


@dataclass(frozen=True)
class Preset:
    """What a figure shows, and the studies that reproduce it in two sizes."""

    shows: str
    reduced: tuple[ToyStudy, ...]
    full: tuple[ToyStudy, ...]


def _powers(*exponents: float) -> tuple[PowerLaw, ...]:
    return tuple(PowerLaw(exponent) for exponent in exponents)


# -- published grids ------------------------------------------------------------------------------------------

PUBLISHED_DIMS = (10, 15, 25, 39, 63, 100)  # e^x for six x from ln 10 to ln 100, rounded down
PUBLISHED_DECAYS = tuple(-1 + 2 * i / 9 for i in range(10))
PUBLISHED_LAWS = _powers(*(i / 8 for i in range(17)))  # exponents 0 to 2
LARGE_PLAN = TrainingPlan(
    steps=40_000,
    warmup_steps=2_000,
    batch=8_192,
    learning_rate=0.02,
    bias_learning_rate=0.25,
    reference_width=8,
    adam_eps=1e-10,
)
LARGE_RUN = ToyStudy(
    features=10_240,
    dims=tuple(2**i for i in range(3, 11)),
    weight_decays=(-1.0,),
    laws=(ExponentialLaw(1000.0), PowerLaw(1.2), LinearLaw()),
    plan=LARGE_PLAN,
)


def _published(*, decays: tuple[float, ...], laws: tuple[PowerLaw, ...]) -> ToyStudy:
    return ToyStudy(1000, PUBLISHED_DIMS, decays, laws)


# At p ∝ 1/i and n = 1000 the first feature is active in every sample from this density on.
MOST_DENSE = sum(1 / i for i in range(1, 1001))

# -- reduced grids --------------------------------------------------------------------------------------------

REDUCED_PLAN = TrainingPlan(steps=4_000, warmup_steps=400, batch=512)
ZERO_START = replace(REDUCED_PLAN, bias_std=0.0)  # not the paper's: without features that are dead from the start
REDUCED_DIMS = (10, 20, 40)
FLAT_TO_STEEP = _powers(0.0, 0.5, 1.0, 1.5, 1.75, 2.0)
STEEP_LAWS = _powers(1.25, 1.5, 1.75, 2.0)

# n = 1000 as published. Starts of b between the published 1 and 0: few features are dead, yet rows are not packed so
# well that a bias cancels their overlaps. Widths where m²/2 is about n at most, or the kept features lose little.
REGIME_SEEDS = (0, 1, 2)
WEAK_REGIME = ToyStudy(
    1000,
    (50, 71, 100),
    (1.0,),
    STEEP_LAWS,
    seeds=REGIME_SEEDS,
    plan=TrainingPlan(steps=5_000, warmup_steps=500, batch=512, bias_std=0.1),
)


def _strong(exponents: tuple[float, ...], dims: tuple[int, ...], *, steps: int, bias_std: float) -> ToyStudy:
    plan = TrainingPlan(steps=steps, warmup_steps=steps // 10, batch=512, bias_std=bias_std)
    return ToyStudy(1000, dims, (-1.0,), _powers(*exponents), seeds=REGIME_SEEDS, plan=plan)


STRONG_REGIME = (
    _strong((0.0, 0.5, 1.0), (12, 24, 48), steps=3_000, bias_std=0.5),
    _strong((1.5,), REDUCED_DIMS, steps=4_000, bias_std=1.0),
    _strong((1.75, 2.0), REDUCED_DIMS, steps=4_000, bias_std=0.5),
)


def _reduced(
    *,
    decays: tuple[float, ...],
    laws: tuple[PowerLaw, ...],
    dims: tuple[int, ...] = REDUCED_DIMS,
    densities: tuple[float, ...] = (1.0,),
    seeds: tuple[int, ...] = (0,),
    plan: TrainingPlan = REDUCED_PLAN,
) -> ToyStudy:
    return ToyStudy(400, dims, decays, laws, densities, seeds, plan)


# -- figures --------------------------------------------------------------------------------------------------

PRESETS: Mapping[PresetName, Preset] = MappingProxyType(
    {
        "fig3": Preset(
            "Weight decay sets the degree of superposition: represented fraction against γ, norms near 0 and 1.",
            reduced=(_reduced(decays=(-1.0, -0.5, 0.0, 0.5, 1.0), laws=_powers(0.0, 1.0, 2.0), dims=(20,)),),
            full=(_published(decays=PUBLISHED_DECAYS, laws=PUBLISHED_LAWS),),
        ),
        "fig4": Preset(
            "Loss against width in both regimes, and the exponents.",
            reduced=(_reduced(decays=(-1.0, 1.0), laws=FLAT_TO_STEEP),),
            full=(_published(decays=(-1.0, 1.0), laws=PUBLISHED_LAWS), LARGE_RUN),
        ),
        "fig5": Preset(
            "Weak superposition: the loss is that of the features left out.",
            reduced=tuple(
                _reduced(decays=(1.0,), laws=STEEP_LAWS, seeds=(0, 1, 2), plan=plan)
                for plan in (REDUCED_PLAN, ZERO_START)
            ),
            full=(_published(decays=PUBLISHED_DECAYS[-3:], laws=PUBLISHED_LAWS),),
        ),
        "fig6": Preset(
            "Strong superposition: overlaps fall as 1/m, and with them the loss.",
            reduced=tuple(
                _reduced(decays=(-1.0,), laws=FLAT_TO_STEEP, seeds=(0, 1), plan=plan)
                for plan in (REDUCED_PLAN, ZERO_START)
            ),
            full=(_published(decays=PUBLISHED_DECAYS[:3], laws=PUBLISHED_LAWS),),
        ),
        "fig7": Preset(
            "The exponents hardly depend on how many features are active at once.",
            reduced=(_reduced(decays=(-1.0, 1.0), laws=_powers(1.0), densities=(1.0, 2.0, 4.0)),),
            full=(
                ToyStudy(
                    1000,
                    PUBLISHED_DIMS,
                    PUBLISHED_DECAYS,
                    _powers(1.0),
                    densities=tuple(1 + i / 8 * (MOST_DENSE - 1) for i in range(9)),
                ),
            ),
        ),
        "regimes": Preset(
            "Both regimes at n = 1000: losses, overlaps and exponents where theory should hold.",
            reduced=(WEAK_REGIME, *STRONG_REGIME),
            full=(
                _published(decays=(1.0,), laws=STEEP_LAWS),
                _published(decays=(-1.0,), laws=FLAT_TO_STEEP),
            ),
        ),
    }
)
