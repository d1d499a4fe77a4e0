"""A small model on the loopback Hub, read as the service reads it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from gramian.errors import (
    GramianError,
)
from gramian.weights.hub import HubIdentity, HubSource
from gramian.weights.vocabulary import Vocabulary, read_vocabulary
from tests.hub.loopback import SIGNATURE, LoopbackHub

MODEL = "acme/tiny"
TOKEN = "hf_plantedtoken0123456789"
E = np.arange(3000, dtype=np.float32).reshape(1000, 3)
CONFIG = json.dumps({"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True}).encode()
FILES = {"config.json": CONFIG, "model.safetensors": save({"model.embed_tokens.weight": E})}


def identity(commit: str, model_id: str = MODEL) -> HubIdentity:
    return HubIdentity(model_id, "main", commit)


def read(hub: LoopbackHub, commit: str, spool: Path, **options: Any) -> tuple[Vocabulary, list[np.ndarray], HubSource]:
    named = options.pop("named", None)
    with HubSource(identity(commit), endpoint=hub.endpoint, spool_dir=spool, **options) as source:
        vocabulary = read_vocabulary(source, tensors=named)
        return vocabulary, [np.concatenate(list(matrix.blocks(100))) for _, matrix in vocabulary.matrices], source


def failure(hub: LoopbackHub, commit: str, spool: Path, **options: Any) -> GramianError:
    with pytest.raises(GramianError) as caught:
        read(hub, commit, spool, **options)
    assert list(spool.iterdir()) == []
    text = f"{caught.value.message} {caught.value.hint}"
    assert "http" not in text.replace("https for", "")
    assert SIGNATURE not in text
    assert TOKEN not in text
    return caught.value
