"""What the Hub's client raises, in this project's own terms.

Messages are built from facts that are known to be harmless: the client's own texts quote whole URLs, and after a
redirect those are signed.
"""

import email.utils
import time
from collections.abc import Mapping

import httpx2  # the client that huggingface_hub itself uses: its exceptions come through
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]  # re-exported lazily

from gramian.errors import (
    GramianError,
    HubProtocolError,
    HubUnavailable,
    InvalidModelId,
    ModelAccessDenied,
    ModelNotFound,
    RevisionNotFound,
    WeightFileNotFound,
)

CLIENT_ERRORS = (HfHubHTTPError, OfflineModeIsEnabled, httpx2.HTTPError, httpx2.InvalidURL)

_TRANSIENT_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_BAD_TOKEN = "Invalid credentials in Authorization header"  # noqa: S105 - the Hub's wording, not a secret
_MISSING_OR_CLOSED = "check the id; a private or gated model needs a token of an account that may read it"


class HubSwitchedOff(HubUnavailable):
    """This process may not reach the Hub at all; trying again changes nothing."""

    transient = False


def explain(error: Exception, *, model_id: str, revision: str, file: str | None = None) -> GramianError:  # noqa: PLR0911 - a table of cases
    """The error of the tree that `error` amounts to, with `file` if it came of reading one."""
    match error:
        case OfflineModeIsEnabled():
            return HubSwitchedOff(
                "the Hub is switched off in this service by HF_HUB_OFFLINE",
                hint="unset HF_HUB_OFFLINE, or analyse an upload or a path",
            )
        case HFValidationError():
            return InvalidModelId(
                f"{model_id[:200]!r} is not a model id",
                hint="an id is 'name' or 'owner/name' of letters, digits, '-', '_' and '.'",
            )
        case GatedRepoError():
            return ModelAccessDenied(
                f"the model {model_id!r} is gated",
                hint="ask for access on the model's page and configure a token of that account",
            )
        case DisabledRepoError():
            return ModelAccessDenied(f"the Hub has disabled the model {model_id!r}", hint="choose another model")
        case RepositoryNotFoundError():
            return _missing_or_closed(model_id)
        case RevisionNotFoundError():
            return RevisionNotFound(
                f"the model {model_id!r} has no revision {revision!r}",
                hint="name a branch, a tag or a commit of the model",
            )
        case RemoteEntryNotFoundError():
            return WeightFileNotFound(f"the model {model_id!r} has no file {file!r} at {revision}")
        case HfHubHTTPError():
            return _by_status(error, model_id=model_id, revision=revision, file=file)
        case httpx2.TimeoutException() | httpx2.NetworkError() | httpx2.RemoteProtocolError() | httpx2.ProxyError():
            return HubUnavailable(
                f"the Hub did not answer in full ({type(error).__name__})", hint="try again in a minute"
            )
        case _:
            return HubProtocolError(
                f"the Hub's answer is unusable ({type(error).__name__})", hint="check the configured Hub endpoint"
            )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the answer names them: the Hub's rate-limit window, or Retry-After in either form."""
    limit = parse_ratelimit_headers(headers)
    if limit is not None and limit.remaining == 0:
        return float(limit.reset_in_seconds)
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        moment = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(0.0, moment.timestamp() - time.time())


def _by_status(  # noqa: PLR0911 - a table of cases
    error: HfHubHTTPError, *, model_id: str, revision: str, file: str | None
) -> GramianError:
    response = error.response
    status, redirected = response.status_code, bool(response.extensions.get("redirected"))
    if status == 403 and redirected:
        return HubUnavailable(
            "the Hub's storage refused the address that the Hub had given", hint="try again in a minute"
        )
    if status == 401 and response.headers.get("X-Error-Message") == _BAD_TOKEN:
        return ModelAccessDenied(
            "the Hub does not accept the configured token", hint="replace the service's Hub token; it may have expired"
        )
    if status == 401:  # also what an http:// endpoint answers for a missing model, without the code https has
        return _missing_or_closed(model_id)
    if status == 403:
        return ModelAccessDenied(f"the Hub refuses access to the model {model_id!r}", hint=_MISSING_OR_CLOSED)
    if status in {404, 410} and file is not None:
        return WeightFileNotFound(f"the model {model_id!r} has no file {file!r} at {revision}")
    if status in {404, 410}:
        return ModelNotFound(
            f"the Hub has no model {model_id!r} at revision {revision!r}",
            hint="check the id and the revision, and that the configured endpoint is a model hub",
        )
    if status in _TRANSIENT_STATUS:
        why = "limits the rate of requests" if status == 429 else "cannot answer now"
        wait = retry_after(response.headers)
        hint = "try again later" if wait is None else f"try again in {wait:.0f} seconds"
        return HubUnavailable(f"the Hub {why} (status {status})", hint=hint, retry_after=wait)
    return HubProtocolError(f"the Hub answered with status {status}", hint="check the configured Hub endpoint")


def _missing_or_closed(model_id: str) -> ModelNotFound:
    return ModelNotFound(
        f"the Hub shows no model {model_id!r}: it is missing, private, or gated (the Hub tells these alike)",
        hint=_MISSING_OR_CLOSED,
    )
