"""Log lines as a process writes them."""

import json
import subprocess
import sys

WRITER = """
import logging, threading, warnings
import stamina
from structlog.contextvars import bind_contextvars
from gramian import logs

logs.configure("INFO", FORM)
bind_contextvars(request_id="req_1", analysis_id="an_1", attempt=2)
log = logging.getLogger("gramian.writer")
log.debug("below the level")
log.info("a name\\nwith a line of its own", extra={"status": 200, "password": "planted"})
logging.getLogger("httpx2").info("GET https://hub/file?signature=planted")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("it failed")
warnings.warn("an old way")

@stamina.retry(on=OSError, attempts=2, wait_initial=0.01, wait_jitter=0)
def fetch(token):
    raise OSError("planted")

try:
    fetch("planted")
except OSError:
    pass
thread = threading.Thread(target=lambda: [].pop())
thread.start()
thread.join()
raise RuntimeError("the end")
"""


def written(form: str) -> list[str]:
    code = WRITER.replace("FORM", repr(form))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.splitlines()


def test_in_json_everything_a_process_has_to_say_is_one_object_a_line() -> None:
    lines = [json.loads(line) for line in written("json")]
    messages = [line["message"] for line in lines]
    assert messages[0] == "a name\nwith a line of its own"
    assert [line["level"] for line in lines] == ["info", "error", "warning", "warning", "critical", "critical"]
    assert "ZeroDivisionError: division by zero" in lines[1]["exception"]
    assert "an old way" in messages[2]
    assert messages[3].startswith("__main__.fetch failed (OSError)")
    assert "IndexError" in lines[4]["exception"]
    assert "RuntimeError: the end" in lines[5]["exception"]
    for line in (*lines[:4], lines[5]):  # a bare thread has a context of its own
        assert (line["request_id"], line["analysis_id"], line["attempt"]) == ("req_1", "an_1", 2)
    assert lines[0]["status"] == 200
    assert "planted" not in str([{**line, "exception": None} for line in lines])


def test_in_text_a_quoted_newline_starts_no_line() -> None:
    first, *_ = lines = written("text")
    assert first.endswith("status=200")
    assert "a name\\nwith a line of its own" in first
    assert "request_id=req_1" in first
    assert lines[-1] == "RuntimeError: the end"
    assert "planted" not in "\n".join(lines)
