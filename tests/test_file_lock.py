"""What needs file locks where the system has none: a process in which `fcntl` cannot be imported."""

import subprocess
import sys
from pathlib import Path

WITHOUT_LOCKS = """
import sys
import mcp  # on Windows, it does not import fcntl
sys.modules["fcntl"] = None
import asyncio, importlib, pathlib, pkgutil
import parley

for module in pkgutil.walk_packages(parley.__path__, "parley."):
    if not (module.ispkg and module.name.startswith("parley.adapters.")):  # which need their frameworks
        importlib.import_module(module.name)

from parley.cli.main import main
from parley.client.credentials.token_store import FileLogins, Login

async def renew():
    logins = FileLogins(sys.argv[1])
    logins.put(Login(origin="https://a.example", scheme="key", kind="apiKey", secret="s"))
    async with logins.exclusive("https://a.example", "key"), logins.exclusive("https://a.example", "key"):
        print("two at once")

asyncio.run(renew())
sys.argv[1:] = ["proxy", "http://127.0.0.1:9", "--ledger", f"{sys.argv[1]}/ledger"]
main()
"""


def test_without_fcntl_all_is_imported_logins_are_kept_unlocked_and_a_ledger_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_LOCKS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "two at once\n"), done.stderr
    assert done.stderr == f"Error: {tmp_path}/ledger cannot be used: this system has no file locks\n"
