"""Whether the input and the output embedding are one matrix: decided from the stored tensors, not from the flag."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gramian.weights.tensors import TensorInfo

Finding = Literal["tied", "untied", "no_head", "reversed", "not_compared"]

# Class names in `architectures` that predict tokens. ElectraForPreTraining is a discriminator.
_HEADED = re.compile(
    r"For(Causal|Masked)LM|LMHead|ForConditionalGeneration|ForPreTraining|ForVision2Seq|ForTextTo|ForSpeechToText"
    r"|ForBlockDiffusion|DoubleHeadsModel|MTModel|EncoderDecoderModel|ForImageTextToText|VisionText2Text"
)
_HEADLESS = re.compile(r"ElectraForPreTraining|Wav2Vec2")

_TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")

# Their configuration classes write `true` whatever the checkpoint holds: the flag is reported and not believed.
_FLAG_UNRELIABLE = ("t5", "mt5", "umt5")


@dataclass(frozen=True)
class Tying:
    """What the configuration says (`flag`), what the tensors say (`finding`), and why, in words."""

    flag: bool | None
    finding: Finding
    reason: str

    @property
    def contradiction(self) -> str | None:
        """How flag and finding disagree, or None."""
        says = f"tie_word_embeddings is {str(self.flag).lower()} in config.json"
        match self.flag, self.finding:
            case True, "untied":
                return f"{says}, but the two stored matrices differ; both were analysed"
            case False, "tied":
                return f"{says}, but there is only one matrix: {self.reason}"
            case False, "no_head":
                return f"{says}, but no output matrix is stored: {self.reason}"
        return None


def decide_tying(
    *,
    input: TensorInfo | None,
    output: TensorInfo | None,
    equal: bool | None,
    config: Mapping[str, Any] | None,
    other: str | None = None,
) -> Tying:
    """How the two matrices relate.

    Parameters
    ----------
    input, output
        The chosen tensors.
    equal
        Whether they hold the same numbers; None where one is absent or nothing was compared.
    config
        `config.json`, if there is one.
    other
        Name of a stored matrix of the other role that was not asked for.
    """
    if other is not None:
        named = next(tensor.name for tensor in (input, output) if tensor is not None)
        finding: Finding = "not_compared"
        reason = f"only {named!r} was asked for; {other!r} is stored too and was not compared"
    elif input is not None and output is not None:
        finding, reason = _both(input, output, equal=equal)
    elif output is not None:
        finding, reason = "reversed", f"only the output matrix {output.name!r} is stored; it serves as the input too"
    else:
        finding, reason = _only_input(input, config)
    flag = tie_flag(config)
    return Tying(flag, finding, f"{reason}; {_flag_in_words(flag, config)}")


def tie_flag(config: Mapping[str, Any] | None) -> bool | None:
    """`tie_word_embeddings` from the top level or, where that is silent, from the nested text configuration."""
    for part in _flag_bearers(config, depth=2):
        if isinstance(flag := part.get("tie_word_embeddings"), bool):
            return flag
    return None


def headed_architecture(config: Mapping[str, Any] | None) -> str | None:
    """The first class named in `architectures` that predicts tokens."""
    named = (config or {}).get("architectures")
    names = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    return next((name for name in names if _HEADED.search(name) and not _HEADLESS.search(name)), None)


def _both(input: TensorInfo, output: TensorInfo, *, equal: bool | None) -> tuple[Finding, str]:
    if input == output:
        return "tied", f"{input.name!r} was named for both roles"
    both = f"{input.name!r} and {output.name!r} are both stored"
    if input.shape != output.shape:
        return "untied", f"{both}, with the shapes {list(input.shape)} and {list(output.shape)}"
    return ("tied", f"{both} and hold the same numbers") if equal else ("untied", f"{both} and hold different numbers")


def _only_input(input: TensorInfo | None, config: Mapping[str, Any] | None) -> tuple[Finding, str]:
    alone = f"only the input matrix {input.name!r} is stored" if input else "no matrix is stored"
    headed = headed_architecture(config)
    if headed is None:
        return "no_head", f"{alone}, and no class with an output head is named"
    if tie_flag(config) is False and not _flag_unreliable(config):
        return "no_head", f"{alone}; {headed} has an output head, which would be a matrix of its own"
    return "tied", f"{alone}, and {headed} uses it as output head too"


def _flag_unreliable(config: Mapping[str, Any] | None) -> bool:
    return config is not None and config.get("model_type") in _FLAG_UNRELIABLE


def _flag_bearers(config: Mapping[str, Any] | None, *, depth: int) -> list[Mapping[str, Any]]:
    if not isinstance(config, Mapping):
        return []
    nested = [part for key in _TEXT_CONFIGS if depth for part in _flag_bearers(config.get(key), depth=depth - 1)]
    return [config, *nested]


def _flag_in_words(flag: bool | None, config: Mapping[str, Any] | None) -> str:
    if flag is None:
        return "config.json has no tie_word_embeddings" if config is not None else "there is no config.json"
    words = f"tie_word_embeddings is {str(flag).lower()}"
    if config is not None and _flag_unreliable(config):
        words += f", which says nothing for {config['model_type']}"
    return words
