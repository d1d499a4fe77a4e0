"""Everything that can go wrong, as one tree of errors that carry facts.

Each class has a stable, machine-readable `code`; the message says what was found, `hint` what to do next.
The HTTP edge maps classes to a status in one table (`service/problems.py`); a worker stores the same facts
on the failed analysis. `transient` marks what may succeed when tried again unchanged.
"""

from collections.abc import Sequence
from typing import ClassVar


class GramianError(Exception):
    """Root of the tree: a failure that is explained to whoever asked."""

    code: ClassVar[str] = "error"
    title: ClassVar[str] = "Something went wrong"
    transient: ClassVar[bool] = False
    advice: ClassVar[str] = "the message says what was found"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.advice


# -- numbers --------------------------------------------------------------------------------------------------


class GeometryError(GramianError, ValueError):
    """A matrix or a parameter for which the quantity asked for is not defined."""

    code = "undefined_geometry"
    title = "The quantity is not defined for this input"
    advice = "check the values named in the message against the ranges it gives"


class TooFewRows(GeometryError):
    """Fewer usable rows than the quantity needs."""

    code = "too_few_rows"
    title = "Too few usable rows"

    def __init__(self, *, used: int, zero: int = 0, nonfinite: int = 0, needed: int = 2, excluded: int = 0) -> None:
        asked = f", {excluded} as rows.exclude says" if excluded else ""
        super().__init__(
            f"{used} usable rows are left, at least {needed} are needed "
            f"({zero} zero rows and {nonfinite} rows with NaN or infinity were left out{asked})",
            hint="check that the tensor holds trained weights, and that it was saved without overflow",
        )
        self.used, self.zero, self.nonfinite, self.needed = used, zero, nonfinite, needed

    def of_which_left_out(self, rows: int) -> "TooFewRows":
        """The same, where so many of the rows of zeros were made such because they were not wanted."""
        return TooFewRows(
            used=self.used, zero=self.zero - rows, nonfinite=self.nonfinite, needed=self.needed, excluded=rows
        )


class TrainingDiverged(GeometryError):
    """A toy model left training with numbers that are not finite, or with no rows."""

    code = "training_diverged"
    title = "A toy model's training diverged"
    advice = "lower the learning rate or the weight decay, and look at the cells that were finished before"


class TooFewLines(GeometryError):
    """No set that can be written down here has as many lines."""

    code = "too_few_lines"
    title = "No known set has so many lines"


# -- weights --------------------------------------------------------------------------------------------------


class WeightsError(GramianError):
    """The weights were found but cannot be used as they are."""

    code = "invalid_weights"
    title = "The weights cannot be read"
    advice = "check the file with the tool that wrote it, or name another"


class InvalidWeights(WeightsError):
    """The bytes contradict their own format: truncated, overlapping, oversized, not what the name says."""

    advice = "copy or download the whole file again; if it is still refused, write it anew with the safetensors library"


class TokenizerMissing(WeightsError):
    """What was asked needs to know which token each row stands for."""

    code = "tokenizer_missing"
    title = "There is no tokenizer to read"


class RowsUndeterminable(WeightsError):
    """Rows were to be left out that cannot be told from the others."""

    code = "rows_undeterminable"
    title = "The rows to leave out cannot be determined"
    advice = "leave this out of rows.exclude"


class UnsupportedFormat(WeightsError):
    """A weight format that exists but is not read here."""

    code = "unsupported_format"
    title = "The weight format is not supported"

    def __init__(self, found: str, *, supported: Sequence[str], hint: str | None = None) -> None:
        super().__init__(
            f"{found}: this format is not supported; supported are {', '.join(supported)}",
            hint=hint or "save the matrix as safetensors (F64, F32, F16 or BF16) or as a two-dimensional .npy array",
        )
        self.found = found


class UnsupportedDtype(WeightsError):
    """The tensor is stored as something that is not a plain floating-point number."""

    code = "unsupported_dtype"
    title = "The tensor's data type is not supported"

    def __init__(self, tensor: str, dtype: str, *, supported: Sequence[str]) -> None:
        super().__init__(
            f"tensor {tensor!r} is stored as {dtype}; supported are {', '.join(supported)}",
            hint="dequantise the matrix or use a checkpoint that stores it in one of these types: "
            "codes of a quantised tensor are not numbers",
        )
        self.tensor, self.dtype = tensor, dtype


class TensorNotFound(WeightsError):
    """No tensor answers to the name, or none is known to be the vocabulary."""

    code = "tensor_not_found"
    title = "The tensor was not found"

    def __init__(self, wanted: str, *, candidates: Sequence[str], hint: str | None = None) -> None:
        listed = f"candidates: {', '.join(candidates)}" if candidates else "it holds no matrix"
        super().__init__(
            f"{wanted} is not in the checkpoint; {listed}",
            hint=hint or 'name the matrix yourself: "tensors": {"input": "<name>"}',
        )
        self.wanted, self.candidates = wanted, tuple(candidates)


class NotAMatrix(WeightsError):
    """The tensor has another rank than two, or an empty side."""

    code = "not_a_matrix"
    title = "The tensor is not a matrix"

    def __init__(self, tensor: str, shape: Sequence[int]) -> None:
        super().__init__(
            f"tensor {tensor!r} has shape {list(shape)}; a vocabulary matrix has two non-empty dimensions "
            "(rows are vectors)",
            hint="name a two-dimensional tensor of at least one row and one column",
        )
        self.tensor, self.shape = tensor, tuple(shape)


class WeightFileNotFound(WeightsError):
    """A file that the source should hold is missing."""

    code = "weight_file_not_found"
    title = "A weight file is missing"
    advice = "copy the missing file beside the others, or name the weight file itself"


# -- sources --------------------------------------------------------------------------------------------------


class SourceError(GramianError):
    """The place that weights should come from refused or has nothing."""

    code = "source_error"
    title = "The source cannot be used"
    advice = "check the source named in the request"


class ModelNotFound(SourceError):
    code = "model_not_found"
    title = "The model was not found"
    advice = "check the spelling of owner/name; a private model needs the operator's HF_TOKEN"


class RevisionNotFound(SourceError):
    code = "revision_not_found"
    title = "The revision was not found"
    advice = "name a branch, a tag or a commit that the model has"


class ModelAccessDenied(SourceError):
    code = "model_access_denied"
    title = "The model is gated, private or disabled"
    advice = "ask for access on the model's page; the operator sets HF_TOKEN to a token that has it"


class InvalidModelId(SourceError):
    code = "invalid_model_id"
    title = "The model id is malformed"
    advice = "an id is 'name' or 'owner/name' of letters, digits, '-', '_' and '.'"


class HubUnavailable(SourceError):
    """The Hub did not answer, or answered that it cannot now."""

    code = "hub_unavailable"
    title = "The model hub is unavailable"
    transient = True
    advice = "try again in a minute"

    def __init__(self, message: str, *, hint: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after  # seconds, where the Hub named them


class HubProtocolError(SourceError):
    """The Hub answered with other bytes than asked for."""

    code = "hub_protocol_error"
    title = "The model hub sent an unusable answer"
    advice = "check HF_ENDPOINT: it must lead to a model hub that serves byte ranges"


class PathSourceDisabled(SourceError):
    code = "path_source_disabled"
    title = "Path sources are not enabled"
    advice = "the operator sets GRAMIAN_PATH_ROOT; or upload the file"


class PathNotAllowed(SourceError):
    code = "path_not_allowed"
    title = "The path is outside the permitted root"
    advice = "give a path relative to the configured root, without '..'"


class PathNotFound(SourceError):
    code = "path_not_found"
    title = "There is no such path"
    advice = "give a path relative to the configured root, as it is spelled there"


class SourceChanged(SourceError):
    """The bytes changed between accepting the analysis and reading them."""

    code = "source_changed"
    title = "The source changed while it was read"
    advice = "submit the analysis again once nothing writes to the source"


# -- resources ------------------------------------------------------------------------------------------------


class NotFound(GramianError):
    code = "not_found"
    title = "There is no such resource"

    def __init__(self, resource: str, id: str, *, hint: str | None = None) -> None:
        super().__init__(f"no {resource} {id!r}", hint=hint or f"list what exists, or check the {resource}'s id")
        self.resource, self.id = resource, id


class NotMeasured(GramianError):
    """A number that the analysis was not asked for, or does not have yet."""

    code = "not_measured"
    title = "Not measured"


class Conflict(GramianError):
    code = "conflict"
    title = "The resource's state does not allow this"
    advice = "look at the resource, then decide"


class KeyRequired(GramianError):
    """No key was sent where one is needed, or none that is live: which of the two is not told."""

    code = "key_required"
    title = "An access key is required"


class ScopeMissing(GramianError):
    code = "scope_missing"
    title = "The key does not permit this"


class RequestInProgress(GramianError):
    code = "request_in_progress"
    title = "The same request is still being answered"
    advice = "repeat it in a second"
    transient = True


class IdempotencyKeyReused(GramianError):
    code = "idempotency_key_reused"
    title = "The idempotency key belongs to another request"
    advice = "use a new key for a new question"


class InvalidCursor(GramianError):
    code = "invalid_cursor"
    title = "The cursor is not one of ours"
    advice = "use next_cursor of the page before, unchanged"


class InvalidParameter(GramianError):
    """A request whose fields are each well formed but cannot be answered together."""

    code = "invalid_parameter"
    title = "A parameter is not acceptable"
    advice = "GET /openapi.json describes the parameters"

    def __init__(self, pointer: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.pointer = pointer


class EmptyUpload(GramianError):
    code = "empty_upload"
    title = "The body is empty"
    advice = "send the file's bytes as the request's body"


class UploadTooLarge(GramianError):
    code = "upload_too_large"
    title = "The upload is larger than allowed"
    advice = "upload only the vocabulary matrices"


class UploadInterrupted(GramianError):
    code = "upload_interrupted"
    title = "The upload stopped before its end"
    advice = "send the whole file again"


class StorageFull(GramianError):
    code = "storage_full"
    title = "The data folder is nearly full"
    transient = True
    advice = "free space in the data folder, then try again"


class LeaseLost(GramianError):
    """Another worker owns the analysis now; this one's result is void."""

    code = "lease_lost"
    title = "The analysis is run by another worker"
    advice = "nothing: the other worker's result counts"


class DeviceMissing(GramianError):
    """A worker took an analysis that requires another device than it has."""

    code = "device_missing"
    title = "No such device here"
    transient = True
    advice = 'start a worker with the device, or ask for another: "device" of the request'
