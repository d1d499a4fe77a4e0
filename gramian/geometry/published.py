"""Published measurements to compare with: Table 1 of A. Guha, arXiv:2606.02765, transcribed.

45 models: dimension, ε = μ + 2σ of the token embedding as printed, and the capacity by the `fitted` form, None where
the paper calls it indeterminate (ε ≥ 0.1).
"""

from typing import NamedTuple


class PublishedCapacity(NamedTuple):
    """One row of the table."""

    model: str
    dim: int
    epsilon: float
    capacity: float | None


PUBLISHED_CAPACITIES: tuple[PublishedCapacity, ...] = (
    PublishedCapacity("DeepSeek V3.2 Exp", 7168, 0.05917, 1.16e9),
    PublishedCapacity("DeepSeek R1", 7168, 0.05917, 1.16e9),
    PublishedCapacity("Gemma 7B", 3072, 0.99918, None),
    PublishedCapacity("Gemma 2 2B", 2304, 0.35084, None),
    PublishedCapacity("Gemma 2 9B", 3584, 0.39785, None),
    PublishedCapacity("Gemma 2 27B", 4608, 0.09013, 4.77e10),
    PublishedCapacity("Gemma 3 270M", 640, 0.41554, None),
    PublishedCapacity("Gemma 3 1B", 1152, 0.20164, None),
    PublishedCapacity("Gemma 3 12B", 3840, 0.08635, 2.51e9),
    PublishedCapacity("Gemma 3 27B", 5376, 0.07421, 4.36e9),
    PublishedCapacity("GLM 4.6", 5120, 0.05882, 6.14e7),
    PublishedCapacity("GPT OSS 120B", 2880, 0.22984, None),
    PublishedCapacity("GPT OSS 20B", 2880, 0.2812, None),
    PublishedCapacity("Kimi K2", 7168, 0.06763, 1.47e10),
    PublishedCapacity("Llama 2 7B", 4096, 0.0645, 3.99e7),
    PublishedCapacity("Llama 2 13B", 5120, 0.06766, 5.11e8),
    PublishedCapacity("Llama 2 70B", 8192, 0.09962, 8.15e15),
    PublishedCapacity("Llama 3 8B", 4096, 0.05945, 1.42e7),
    PublishedCapacity("Llama 3.1 8B", 4096, 0.05542, 6.37e6),
    PublishedCapacity("Llama 3.1 70B", 8192, 0.04413, 4.39e7),
    PublishedCapacity("Llama 3.1 405B", 16384, 0.04813, 1.22e11),
    PublishedCapacity("Llama 3.2 1B", 2048, 0.28223, None),
    PublishedCapacity("Llama 3.2 3B", 3072, 0.29395, None),
    PublishedCapacity("MiniMax M2", 3072, 0.07618, 4.39e7),
    PublishedCapacity("Mistral Small 3.2 24B", 5120, 0.0752, 3.39e9),
    PublishedCapacity("Mistral 7B Instruct v0.3", 4096, 0.07019, 1.33e8),
    PublishedCapacity("Phi 2", 2560, 0.05497, 4.57e5),
    PublishedCapacity("Phi 3 mini 128k", 3072, 0.05536, 1.21e6),
    PublishedCapacity("Phi 4", 5120, 0.05865, 5.91e7),
    PublishedCapacity("Qwen 2.5 0.5B", 896, 0.36035, None),
    PublishedCapacity("Qwen 2.5 1.5B", 1536, 0.25998, None),
    PublishedCapacity("Qwen 2.5 3B", 2048, 0.21014, None),
    PublishedCapacity("Qwen 2.5 7B", 3584, 0.07501, 1.20e8),
    PublishedCapacity("Qwen 2.5 14B", 5120, 0.05269, 1.51e7),
    PublishedCapacity("Qwen 2.5 32B", 5120, 0.05554, 2.88e7),
    PublishedCapacity("Qwen 2.5 72B", 8192, 0.06131, 8.46e9),
    PublishedCapacity("Qwen 3 0.6B", 1024, 0.25204, None),
    PublishedCapacity("Qwen 3 4B", 2560, 0.20834, None),
    PublishedCapacity("Qwen 3 8B", 4096, 0.05969, 1.49e7),
    PublishedCapacity("Qwen 3 32B", 5120, 0.07263, 1.77e9),
    PublishedCapacity("Qwen 3 30B A3B", 2048, 0.06456, 5.67e5),
    PublishedCapacity("Qwen 3 Next 80B A3B", 2048, 0.07422, 2.07e6),
    PublishedCapacity("Qwen 3 235B A22B", 4096, 0.04874, 1.77e6),
    PublishedCapacity("Qwen 3 Coder 480B", 6144, 0.0466, 1.21e7),
    PublishedCapacity("TinyLlama 1.1B", 2048, 0.06329, 4.81e5),
)
