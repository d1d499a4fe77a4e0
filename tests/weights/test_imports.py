"""The HTTP process inspects uploads and resolves revisions without loading torch."""

import subprocess
import sys


def test_no_module_here_loads_torch() -> None:
    code = (
        "import sys, gramian.weights.hub, gramian.weights.vocabulary, gramian.weights.paths, gramian.weights.formats;"
        "sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
