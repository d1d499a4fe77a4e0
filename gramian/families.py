"""Families of models that are alike but for size, told from their names."""

import re

#: A number of parameters or a word for a size: what comes before tells the family.
_SIZE = re.compile(
    r"[-_. ](?:\d+(?:[.p]\d+)?[mbkt](?![a-z])|(?:tiny|mini|small|base|medium|large|xl|xxl|xs)(?![a-z])).*$",
    re.IGNORECASE,
)


def family_of(model_id: str) -> str:
    """The model id up to its size; the whole id where it names none.

    Examples
    --------
    >>> family_of("EleutherAI/pythia-1.4b-deduped"), family_of("openai-community/gpt2-large")
    ('EleutherAI/pythia', 'openai-community/gpt2')
    >>> family_of("meta-llama/Llama-2-7b-hf"), family_of("openai-community/gpt2")
    ('meta-llama/Llama-2', 'openai-community/gpt2')
    """
    organisation, slash, name = model_id.rpartition("/")
    return f"{organisation}{slash}{_SIZE.sub('', name) or name}"
