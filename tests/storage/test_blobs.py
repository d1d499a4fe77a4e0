"""Files named by their digest, and what is on its way to become one."""

import hashlib
from pathlib import Path

import pytest

from gramian.storage.blobs import BlobStore

DATA = b"weights" * 1000


def received(store: BlobStore):
    incoming = store.receive()
    incoming.write(DATA)
    incoming.flush()
    return incoming


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path)


def test_a_published_file_has_its_digests_name_and_its_bytes(store: BlobStore) -> None:
    received(store).publish()
    assert store.path(hashlib.sha256(DATA).hexdigest()).read_bytes() == DATA


def test_receiving_leaves_no_file_open(store: BlobStore) -> None:
    before = len(list(Path("/dev/fd").iterdir()))
    for end in ("publish", "discard"):
        getattr(received(store), end)()
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_sweep_leaves_what_is_being_received_alone(store: BlobStore, tmp_path: Path) -> None:
    incoming = received(store)
    leftover = tmp_path / "incoming" / "of-a-crash"
    leftover.write_bytes(b"half")
    store.sweep()
    assert not leftover.exists()
    incoming.publish()
    assert store.path(incoming.sha256).read_bytes() == DATA


def test_what_is_discarded_is_gone_and_what_is_published_stays(store: BlobStore, tmp_path: Path) -> None:
    received(store).discard()
    published = received(store)
    published.publish()
    published.discard()
    assert store.path(published.sha256).is_file()
    assert not list((tmp_path / "incoming").iterdir())
