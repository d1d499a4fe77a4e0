"""Which tensor is the vocabulary: chosen by known names only, explicit names first, decoys never."""

import pytest

from gramian.errors import NotAMatrix, TensorNotFound, UnsupportedDtype
from gramian.weights.names import INPUT_NAMES, OUTPUT_NAMES, choose_tensors, shortlist
from gramian.weights.tensors import TensorInfo

V, D = 1000, 64


def matrix(name: str, rows: int = V, dim: int = D, dtype: str = "BF16") -> TensorInfo:
    return TensorInfo(name, dtype, (rows, dim))


def chosen(*tensors: TensorInfo, **named: str) -> tuple[str | None, str | None]:
    found = choose_tensors(tensors, **named)
    return (found.input.name if found.input else None, found.output.name if found.output else None)


# Checkpoint keys as published repositories hold them.
FAMILIES = {
    "llama": ("model.embed_tokens.weight", "lm_head.weight"),
    "llava": ("language_model.model.embed_tokens.weight", "language_model.lm_head.weight"),
    "gemma3": ("model.language_model.embed_tokens.weight", "lm_head.weight"),
    "smolvlm": ("model.text_model.embed_tokens.weight", "lm_head.weight"),
    "gpt2": ("wte.weight", None),
    "gpt2 with head": ("transformer.wte.weight", "lm_head.weight"),
    "pythia": ("gpt_neox.embed_in.weight", "embed_out.weight"),
    "bloom": ("word_embeddings.weight", None),
    "falcon": ("transformer.word_embeddings.weight", "lm_head.weight"),
    "mamba": ("backbone.embedding.weight", None),
    "mamba2": ("backbone.embeddings.weight", "lm_head.weight"),
    "phi remote code": ("transformer.embd.wte.weight", "lm_head.linear.weight"),
    "mistral consolidated": ("tok_embeddings.weight", "output.weight"),
    "internlm2": ("model.tok_embeddings.weight", "output.weight"),
    "internvl": ("language_model.model.tok_embeddings.weight", "language_model.output.weight"),
    "chatglm": ("transformer.embedding.word_embeddings.weight", "transformer.output_layer.weight"),
    "olmo remote code": ("model.transformer.wte.weight", "model.transformer.ff_out.weight"),
    "opt": ("model.decoder.embed_tokens.weight", "lm_head.weight"),
    "opt-350m": ("decoder.embed_tokens.weight", None),
    "t5": ("shared.weight", "lm_head.weight"),
    "bart": ("model.shared.weight", None),
    "whisper": ("model.decoder.embed_tokens.weight", "proj_out.weight"),
    "bert": ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
    "bert base": ("embeddings.word_embeddings.weight", None),
    "roberta": ("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
    "distilbert": ("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"),
    "albert": ("albert.embeddings.word_embeddings.weight", "predictions.decoder.weight"),
    "electra": ("electra.embeddings.word_embeddings.weight", "generator_lm_head.weight"),
    "deberta-v2": ("deberta.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
    "modernbert": ("model.embeddings.tok_embeddings.weight", "decoder.weight"),
    "rwkv": ("rwkv.embeddings.weight", "head.weight"),
    "xlnet": ("transformer.word_embedding.weight", "lm_loss.weight"),
    "xlm": ("transformer.embeddings.weight", "pred_layer.proj.weight"),
    "ctrl": ("transformer.w.weight", "lm_head.weight"),
    "openai-gpt": ("tokens_embed.weight", None),
    "cpmant": ("cpmant.input_embedding.weight", "lm_head.weight"),
    "nemotron_h": ("backbone.embeddings.weight", "lm_head.weight"),
    "qwen omni": ("thinker.model.embed_tokens.weight", "thinker.lm_head.weight"),
    "model2vec": ("embeddings", None),
    "static": ("embedding.weight", None),
    "lone array": ("array", None),
    "peft": ("base_model.model.model.embed_tokens.weight", "base_model.model.lm_head.weight"),
    "compiled": ("_orig_mod.model.embed_tokens.weight", "_orig_mod.lm_head.weight"),
}
OTHERS = (
    matrix("model.layers.0.self_attn.q_proj.weight", 4096, 4096),
    matrix("embeddings.position_embeddings.weight", 5000),
    matrix("embeddings.token_type_embeddings.weight", 2),
    matrix("transformer.wpe.weight", 8192),
    matrix("decoder.embed_positions.weight", 2048),
)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_is_recognised(family: str) -> None:
    names = FAMILIES[family]
    assert chosen(*OTHERS, *(matrix(name) for name in names if name)) == names


DECOYS = (
    "model.layers.61.embed_tokens.weight",
    "model.layers.61.shared_head.head.weight",
    "model.embed_tokens_per_layer.weight",
    "model.language_model.embed_tokens_per_layer.weight",
    "model.vision_embed_tokens.wte.weight",
    "model.embed_tokens.additional_embedding.weight",
    "embeddings.position_embeddings.weight",
    "embeddings.token_type_embeddings.weight",
    "vision_model.embeddings.patch_embedding.weight",
    "vision_tower.embeddings.position_embedding.weight",
    "mtp.embed_tokens.weight",
    "talker.codec_head.weight",
    "classifier.weight",
    "score.weight",
    "lm_head.bias",
)


@pytest.mark.parametrize("decoy", DECOYS)
def test_decoys_are_never_chosen(decoy: str) -> None:
    larger = matrix(decoy, 10 * V)
    assert chosen(larger, matrix("model.embed_tokens.weight")) == ("model.embed_tokens.weight", None)
    with pytest.raises(TensorNotFound):
        choose_tensors([larger])


def test_the_shared_table_wins_over_the_copies_in_either_half() -> None:
    copies = [matrix(f"{half}.embed_tokens.weight") for half in ("encoder", "decoder")]
    assert chosen(*copies, matrix("shared.weight"))[0] == "shared.weight"
    assert chosen(*copies, matrix("lm_head.weight")) == ("decoder.embed_tokens.weight", "lm_head.weight")


def test_a_classifier_called_head_or_decoder_is_not_the_output_embedding() -> None:
    for name in ("head.weight", "output.weight", "decoder.weight"):
        assert chosen(matrix("wte.weight"), matrix(name, 10)) == ("wte.weight", None)


def test_head_and_input_may_differ_in_rows_and_width() -> None:
    assert chosen(matrix("model.embed_tokens.weight", 128264), matrix("lm_head.weight", 128256))[1] == "lm_head.weight"
    rembert = (
        matrix("rembert.embeddings.word_embeddings.weight", V, 256),
        matrix("cls.predictions.decoder.weight", V, 1664),
    )
    assert chosen(*rembert)[1] == "cls.predictions.decoder.weight"


def test_explicit_names_win_and_leave_the_other_role_out() -> None:
    tensors = [matrix("model.embed_tokens.weight"), matrix("lm_head.weight"), matrix("odd.table", 7, 3)]
    assert chosen(*tensors, input="odd.table") == ("odd.table", None)
    assert chosen(*tensors, output="odd.table") == (None, "odd.table")
    assert chosen(*tensors, input="lm_head.weight", output="odd.table") == ("lm_head.weight", "odd.table")


def test_a_wrong_explicit_name_comes_with_the_nearest_ones() -> None:
    layers = [matrix(f"model.layers.{i}.mlp.up_proj.weight") for i in range(200)]
    with pytest.raises(TensorNotFound) as caught:
        choose_tensors([*layers, matrix("model.embed_tokens.weight")], input="model.embed_token.weight")
    assert caught.value.wanted == "'model.embed_token.weight'"
    assert caught.value.candidates[0] == "model.embed_tokens.weight"
    assert len(caught.value.candidates) == 10


def test_the_unknown_is_not_guessed_but_the_largest_matrices_are_named() -> None:
    tensors = [matrix(f"w{i}", rows=10 + i) for i in range(20)] + [
        TensorInfo("b", "F32", (10**6,)),
        matrix("i", 10**6, dtype="I64"),
    ]
    with pytest.raises(TensorNotFound) as caught:
        choose_tensors(tensors)
    assert caught.value.candidates == tuple(f"w{i}" for i in range(19, 9, -1))
    assert "w19 [29, 64] BF16" in caught.value.message


def test_a_checkpoint_without_any_matrix_says_so() -> None:
    with pytest.raises(TensorNotFound, match="holds no matrix"):
        choose_tensors([])


@pytest.mark.parametrize("shape", [(V,), (V, D, 1), (), (0, D), (V, 0)])
def test_what_is_no_matrix_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(NotAMatrix) as caught:
        choose_tensors([TensorInfo("x", "F32", shape)], input="x")
    assert caught.value.shape == shape


@pytest.mark.parametrize("dtype", ["I64", "U8", "F8_E4M3", "BOOL", "C64", "F4"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(UnsupportedDtype, match=dtype):
        choose_tensors([matrix("model.embed_tokens.weight", dtype=dtype)])


QUANTISED = {
    "MLX": ({"weight": "U32", "scales": "F16", "biases": "F16"}, "MLX"),
    "GPTQ": ({"qweight": "I32", "qzeros": "I32", "scales": "F16", "g_idx": "I32"}, "GPTQ"),
    "compressed-tensors": (
        {"weight_packed": "I32", "weight_scale": "BF16", "weight_shape": "I64"},
        "compressed-tensors",
    ),
    "FP8": ({"weight": "F8_E4M3", "weight_scale_inv": "F32"}, "FP8"),
    "NVFP4": ({"weight": "U8", "weight_scale": "F8_E4M3", "weight_scale_2": "F32"}, "NVFP4"),
    "bitsandbytes": ({"weight": "U8", "weight.absmax": "F32", "weight.quant_map": "F32"}, "bitsandbytes"),
}


@pytest.mark.parametrize("scheme", QUANTISED)
@pytest.mark.parametrize("module", ["model.embed_tokens", "lm_head"])
def test_codes_are_never_read_as_numbers(scheme: str, module: str) -> None:
    parts, name = QUANTISED[scheme]
    tensors = [matrix(f"{module}.{part}", dtype=dtype) for part, dtype in parts.items()]
    if module == "lm_head":
        tensors.append(matrix("model.embed_tokens.weight"))
    with pytest.raises(UnsupportedDtype, match=name):
        choose_tensors(tensors)


def test_quantised_layers_do_not_matter_where_the_embedding_is_plain() -> None:
    layer = [matrix(f"model.layers.0.mlp.up_proj.{part}", dtype="I32") for part in ("qweight", "qzeros", "scales")]
    assert chosen(*layer, matrix("model.embed_tokens.weight"))[0] == "model.embed_tokens.weight"


def test_the_shortlist_holds_what_may_be_chosen_and_little_else() -> None:
    names = ["model.embed_tokens.weight", "lm_head.weight", *(f"model.layers.{i}.mlp.weight" for i in range(100))]
    assert shortlist(names) == ("model.embed_tokens.weight", "lm_head.weight")
    assert shortlist(names, input="model.layers.3.mlp.weight") == ("model.layers.3.mlp.weight",)


def test_the_tables_hold_no_name_twice() -> None:
    assert len(set(INPUT_NAMES)) == len(INPUT_NAMES)
    assert len(set(OUTPUT_NAMES)) == len(OUTPUT_NAMES)
    assert not set(INPUT_NAMES) & set(OUTPUT_NAMES)
