"""Secrets that must be read again, as those that sign webhooks: stored sealed, opened where they are needed.

The key is the operator's (`GRAMIAN_SECRET_KEY`), or a file that the first process to need it leaves in the data folder.
A copy of the database without it tells no secret.
"""

import base64
import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from gramian.errors import GramianError

KEY_FILE = "secret.key"


class SealBroken(GramianError):
    """A stored secret that this process's key does not open."""

    code = "secret_unreadable"
    title = "A stored secret cannot be read"

    def __init__(self) -> None:
        super().__init__(
            "the secret was stored under another key than this process has",
            hint="give API and workers the GRAMIAN_SECRET_KEY, or the data folder, of old; or rotate the secret",
        )


class Seal:
    """Closes and opens secrets with authenticated encryption."""

    def __init__(self, key: bytes) -> None:
        """`key` is any text of enough entropy; its digest is used."""
        self._fernet = Fernet(base64.urlsafe_b64encode(hashlib.sha256(key).digest()))

    def close(self, secret: str) -> str:
        return self._fernet.encrypt(secret.encode()).decode()

    def open(self, sealed: str) -> str:
        """The secret; raises SealBroken if it was closed under another key, or changed since."""
        try:
            return self._fernet.decrypt(sealed.encode()).decode()
        except InvalidToken:
            raise SealBroken from None


def key_in(folder: Path) -> bytes:
    """The folder's own key, made if it has none; of several processes that make one at once, all get the same."""
    path = folder / KEY_FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{KEY_FILE}-") as file:  # for its owner's eyes only
            file.write(base64.urlsafe_b64encode(os.urandom(32)))
            file.flush()
            os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(file.name, path)
    return path.read_bytes()
