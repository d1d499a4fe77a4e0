"""What the Hub posts to a webhook, by its documentation: one payload of each kind."""

from typing import Any

OLD, NEW = 40 * "a", 40 * "b"


def hub_webhook(
    scope: str = "repo.content", action: str = "update", *, model_id: str = "acme/model", **more: Any
) -> dict[str, Any]:
    """A payload, with fields of no use and fields yet unknown."""
    repo = {
        "type": "model",
        "name": model_id,
        "id": "621ffdc036468d709f17434d",
        "private": False,
        "url": {"web": f"https://huggingface.co/{model_id}", "api": f"https://huggingface.co/api/models/{model_id}"},
        "owner": {"id": "628b753283ef59b5be89e937"},
        "tags": [],
        **more.pop("repo", {}),
    }
    return {
        "event": {"action": action, "scope": scope},
        "repo": repo,
        "webhook": {"id": "6390e855e30d9209411de93b", "version": 3},
        "added_next_year": {"nested": [1, 2]},
        **more,
    }


def pushed(model_id: str, commit: str, before: str | None = None, *, ref: str = "refs/heads/main") -> dict[str, Any]:
    """A push to a branch."""
    refs = [{"ref": ref, "oldSha": before, "newSha": commit}]
    return hub_webhook(model_id=model_id, updatedRefs=refs, repo={"headSha": commit})


#: Kind, payload, and the commit that is to be analysed, or words of the reason why none is.
KINDS: list[tuple[str, dict[str, Any], str | None, str]] = [
    ("push", pushed("acme/model", NEW, OLD), NEW, "new commits"),
    ("first push", pushed("acme/model", NEW), NEW, "new commits"),
    (
        "push of several branches",
        hub_webhook(
            updatedRefs=[
                {"ref": "refs/pr/7", "oldSha": None, "newSha": OLD},
                {"ref": "refs/heads/main", "oldSha": OLD, "newSha": NEW},
                {"ref": "refs/heads/other", "oldSha": OLD, "newSha": NEW},
            ]
        ),
        NEW,
        "new commits",
    ),
    ("newer version", pushed("acme/model", NEW) | {"webhook": {"id": "x", "version": 9}}, NEW, "new commits"),
    (
        "narrower scope of content",
        pushed("acme/model", NEW) | {"event": {"action": "update", "scope": "repo.content.lfs"}},
        NEW,
        "new commits",
    ),
    ("unknown scope of a repository", hub_webhook("repo.weights", repo={"headSha": NEW}), NEW, "new commits"),
    ("head alone", hub_webhook(repo={"headSha": NEW}), NEW, "new commits"),
    ("other branch", pushed("acme/model", NEW, OLD, ref="refs/heads/dev"), None, "no watch covers acme/model@dev"),
    ("pull request", pushed("acme/model", NEW, OLD, ref="refs/pr/1"), None, "pull requests"),
    ("tag", pushed("acme/model", NEW, None, ref="refs/tags/v1"), None, "tags"),
    (
        "deleted branch",
        hub_webhook(updatedRefs=[{"ref": "refs/heads/main", "oldSha": OLD, "newSha": None}]),
        None,
        "deleted",
    ),
    ("unwatched model", pushed("acme/other", NEW, OLD), None, "no watch covers acme/other"),
    ("created", hub_webhook("repo", "create", repo={"headSha": NEW}), None, "was made"),
    ("deleted", hub_webhook("repo", "delete"), None, "was deleted"),
    ("moved", hub_webhook("repo", "move", movedTo={"name": "acme/new", "owner": {"id": "1"}}), None, "renamed"),
    (
        "settings",
        hub_webhook("repo.config", updatedConfig={"private": True}, repo={"headSha": NEW}),
        None,
        "settings",
    ),
    ("dataset", pushed("acme/model", NEW) | {"repo": {"type": "dataset", "name": "acme/model"}}, None, "dataset"),
    (
        "discussion",
        hub_webhook("discussion", "create", discussion={"id": "1", "title": "x", "num": 3, "status": "open"}),
        None,
        "discussions",
    ),
    ("comment", hub_webhook("discussion.comment", "create", comment={"id": "1", "content": "x"}), None, "discussions"),
    ("unknown scope", hub_webhook("organisation", "update"), None, "organisation"),
    ("unknown action", hub_webhook("repo", "sparkle"), None, "no commit"),
    ("empty", {}, None, "no event"),
    ("odd types", {"event": [], "repo": "x", "updatedRefs": 7}, None, "no event"),
    (
        "odd refs",
        hub_webhook(updatedRefs=[None, 7, {"ref": 1}, {"ref": "refs/heads/main", "newSha": "short"}]),
        None,
        "no branch",
    ),
    ("odd name", hub_webhook(model_id="../../etc", updatedRefs=[]), None, "no repository"),
]
