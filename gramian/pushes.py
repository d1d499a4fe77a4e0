"""What other services tell of models: which branch went where. The Hub's webhooks, and messages of any other tool."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gramian.errors import GramianError

_BRANCH = "refs/heads/"
_DEFAULT_BRANCH = "main"
_SHA = re.compile(r"[0-9a-f]{40}")
_NAME = re.compile(r"[^\x00-\x20\x7f]{1,255}")
_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_LONGEST_MODEL_ID = 96 + 1 + 96
UPDATED = "model.updated"

#: Narrower scopes, by their first words, that do not change a model's content.
_NO_CONTENT = {
    "repo.config": "only the settings of the repository changed",
    "discussion": "discussions change no weights",
}
_NO_PUSH = {
    "create": "the repository was made; its first push is told by itself",
    "delete": "the repository was deleted; what was measured stays",
    "move": "the repository was renamed; watches name the old id: change them",
}


class HookDisabled(GramianError):
    """An incoming webhook for which the operator has set no secret."""

    code = "hook_disabled"
    title = "The webhook is not set up"


class HookRefused(GramianError):
    """An incoming webhook that does not show the secret."""

    code = "hook_refused"
    title = "The webhook is not who it should be"


@dataclass(frozen=True)
class Push:
    """A branch of a model that stands at another commit now."""

    model_id: str
    branch: str
    commit: str
    previous: str | None = None


@dataclass(frozen=True)
class Told:
    """What a message comes to: pushes, or why there are none."""

    pushes: Sequence[Push] = ()
    reason: str | None = None


def read_hub_webhook(payload: Mapping[str, Any]) -> Told:
    """What a webhook of the Hugging Face Hub tells.

    Fields, actions and scopes that are not known do no harm: a narrower scope counts as an update of the broader one,
    as the Hub asks of receivers, and what is missing or of another type is taken as not said.

    Examples
    --------
    >>> read_hub_webhook({"event": {"action": "update", "scope": "repo.content"},
    ...     "repo": {"type": "model", "name": "org/m"},
    ...     "updatedRefs": [{"ref": "refs/heads/main", "oldSha": None, "newSha": 40 * "a"}]}).pushes[0].branch
    'main'
    """
    event, repo = _object(payload.get("event")), _object(payload.get("repo"))
    reason = _why_no_push(_text(event.get("scope")), _text(event.get("action")), repo)
    if reason is not None:
        return Told(reason=reason)
    return _pushes(str(repo["name"]), payload.get("updatedRefs"), head=_sha(repo.get("headSha")))


def read_generic(payload: Mapping[str, Any]) -> Told:
    """What another tool tells: `{"type": "model.updated", "data": {…}}`.

    `data` has `model_id` and `commit`, and may have `revision`, the branch (`main`), and `previous_commit`.
    """
    told, data = _text(payload.get("type")), _object(payload.get("data"))
    if told != UPDATED:
        return Told(reason=f"messages of type {(told or '')[:40]!r} ask for nothing; {UPDATED!r} does")
    model_id, branch, commit = data.get("model_id"), _text(data.get("revision")), _sha(data.get("commit"))
    if not is_model_id(model_id):
        return Told(reason="data.model_id is missing, or is no model id")
    if commit is None:
        return Told(reason="data.commit is missing, or is not a commit of 40 hexadecimal digits")
    return Told([Push(str(model_id), branch or _DEFAULT_BRANCH, commit, _sha(data.get("previous_commit")))])


def is_model_id(value: Any) -> bool:
    """Whether this can be the name of a repository on the Hub: `name`, or `owner/name`."""
    return (
        isinstance(value, str)
        and len(value) <= _LONGEST_MODEL_ID
        and _MODEL_ID.fullmatch(value) is not None
        and not any(odd in value for odd in ("..", "--"))
    )


def _why_no_push(scope: str | None, action: str | None, repo: Mapping[str, Any]) -> str | None:
    """Why a webhook's event is no push, None if it may be one."""
    found: str | None = None
    if not scope or not action:
        found = "the message names no event"
    elif no_content := next((why for begin, why in _NO_CONTENT.items() if _is_within(scope, begin)), None):
        found = no_content
    elif not _is_within(scope, "repo"):
        found = f"events of scope {scope[:40]!r} change no weights"
    elif repo.get("type", "model") != "model":
        found = f"only models are analysed, this is a {str(repo['type'])[:40]!r}"
    elif scope == "repo" and action in _NO_PUSH:
        found = _NO_PUSH[action]
    elif not is_model_id(repo.get("name")):
        found = "the message names no repository"
    return found


def _pushes(model_id: str, refs: Any, *, head: str | None) -> Told:
    if not isinstance(refs, list):  # an update of which only the new head is told
        if head is None:
            return Told(reason="the message names no commit")
        return Told([Push(model_id, _DEFAULT_BRANCH, head)])
    found = []
    for ref in map(_object, refs):
        name, commit = _text(ref.get("ref")), _sha(ref.get("newSha"))
        if name and name.startswith(_BRANCH) and commit:
            found.append(Push(model_id, name.removeprefix(_BRANCH), commit, _sha(ref.get("oldSha"))))
    if found:
        return Told(found)
    return Told(reason="no branch has a new commit: pull requests, tags and deleted branches are not analysed")


def _is_within(scope: str, broader: str) -> bool:
    return scope == broader or scope.startswith(broader + ".")


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and _NAME.fullmatch(value) else None


def _sha(value: Any) -> str | None:
    return value if isinstance(value, str) and _SHA.fullmatch(value) else None
