"""Models of one family are told by their names."""

import pytest

from gramian.families import family_of


@pytest.mark.parametrize(
    ("model_id", "family"),
    [
        ("EleutherAI/pythia-70m", "EleutherAI/pythia"),
        ("EleutherAI/pythia-1.4b-deduped", "EleutherAI/pythia"),
        ("facebook/opt-125m", "facebook/opt"),
        ("openai-community/gpt2", "openai-community/gpt2"),
        ("openai-community/gpt2-xl", "openai-community/gpt2"),
        ("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2"),
        ("meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2"),
        ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5"),
        ("sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("gpt2", "gpt2"),
        ("x/7b", "x/7b"),
    ],
)
def test_a_family_is_the_name_without_the_size(model_id: str, family: str) -> None:
    assert family_of(model_id) == family
