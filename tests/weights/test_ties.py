"""Flag, presence and equality are three facts; the finding follows the tensors."""

from typing import Any

import pytest

from gramian.weights.tensors import TensorInfo
from gramian.weights.ties import decide_tying, headed_architecture, tie_flag

E = TensorInfo("model.embed_tokens.weight", "BF16", (100, 8))
U = TensorInfo("lm_head.weight", "BF16", (100, 8))
CAUSAL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}


def finding(**facts: Any) -> str:
    return decide_tying(**{"input": E, "output": None, "equal": None, "config": None, **facts}).finding


@pytest.mark.parametrize("flag", [True, False, None])
def test_with_both_stored_only_equality_decides(flag: bool | None) -> None:
    config = {**CAUSAL, "tie_word_embeddings": flag}
    same = decide_tying(input=E, output=U, equal=True, config=config)
    different = decide_tying(input=E, output=U, equal=False, config=config)
    assert (same.finding, different.finding) == ("tied", "untied")
    assert same.flag is different.flag is flag
    assert (same.contradiction is not None) == (flag is False)
    assert (different.contradiction is not None) == (flag is True)


def test_different_shapes_are_untied_without_a_comparison() -> None:
    tying = decide_tying(
        input=TensorInfo("e", "F32", (128264, 8)), output=TensorInfo("u", "F32", (128256, 8)), equal=None, config=None
    )
    assert tying.finding == "untied"
    assert "128264" in tying.reason


def test_a_missing_head_is_tied_if_the_class_has_one() -> None:
    assert finding(config=CAUSAL) == "tied"
    assert finding(config={**CAUSAL, "tie_word_embeddings": True}) == "tied"


def test_a_missing_head_with_a_false_flag_is_no_head_and_a_contradiction() -> None:
    tying = decide_tying(input=E, output=None, equal=None, config={**CAUSAL, "tie_word_embeddings": False})
    assert tying.finding == "no_head"
    assert tying.contradiction


@pytest.mark.parametrize(
    "config",
    [
        None,
        {},
        {"architectures": []},
        {"architectures": ["BertModel"]},
        {"architectures": "x"},
        {"architectures": [3]},
        {"architectures": ["BertForSequenceClassification"]},
    ],
)
def test_without_a_class_that_has_a_head_there_is_none(config: dict[str, Any] | None) -> None:
    assert finding(config=config) == "no_head"


def test_a_head_without_an_input_is_reversed() -> None:
    assert finding(input=None, output=U, config=CAUSAL) == "reversed"


def test_naming_one_of_two_stored_matrices_compares_nothing() -> None:
    tying = decide_tying(input=E, output=None, equal=None, config=CAUSAL, other="lm_head.weight")
    assert tying.finding == "not_compared"
    assert "lm_head.weight" in tying.reason


def test_one_tensor_in_both_roles_is_tied() -> None:
    assert finding(output=E) == "tied"


def test_the_flag_is_looked_up_in_nested_configurations() -> None:
    assert tie_flag({"text_config": {"tie_word_embeddings": True}}) is True
    assert tie_flag({"thinker_config": {"text_config": {"tie_word_embeddings": False}}}) is False
    assert tie_flag({"tie_word_embeddings": False, "text_config": {"tie_word_embeddings": True}}) is False
    assert tie_flag({"tie_word_embeddings": "yes", "text_config": [1]}) is None
    assert tie_flag(None) is None


def test_t5_is_tied_by_its_missing_head_whatever_the_flag_says() -> None:
    config = {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", "tie_word_embeddings": False}
    assert finding(config=config) == "tied"
    tying = decide_tying(input=E, output=U, equal=False, config={**config, "tie_word_embeddings": True})
    assert tying.finding == "untied"
    assert "says nothing" in tying.reason


def test_a_model_type_of_any_json_kind_is_harmless() -> None:
    assert finding(config={**CAUSAL, "model_type": ["llama"], "tie_word_embeddings": False}) == "no_head"


@pytest.mark.parametrize(
    "name",
    [
        "GPT2LMHeadModel",
        "BertForMaskedLM",
        "T5ForConditionalGeneration",
        "MarianMTModel",
        "BertForPreTraining",
        "XLMWithLMHeadModel",
        "GPT2DoubleHeadsModel",
        "Qwen2VLForConditionalGeneration",
    ],
)
def test_classes_that_predict_tokens_have_a_head(name: str) -> None:
    assert headed_architecture({"architectures": [name]}) == name


@pytest.mark.parametrize(
    "name", ["BertModel", "T5EncoderModel", "ElectraForPreTraining", "Qwen3Model", "BertForTokenClassification"]
)
def test_classes_that_do_not_have_none(name: str) -> None:
    assert headed_architecture({"architectures": [name]}) is None
