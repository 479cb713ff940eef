"""Flower's own code reads what we make."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from flwr.cli.supernode.register import try_load_public_key
from flwr.supercore.auth.superexec_secret import load_superexec_auth_secret
from flwr.supercore.primitives.asymmetric import (
    bytes_to_public_key,
    public_key_to_bytes,
    sign_message,
    uses_nist_ec_curve,
    verify_signature,
)
from flwr.supernode.cli.flower_supernode import _try_setup_client_authentication

from umbel.identity import node_keys, tokens


def test_a_supernode_loads_the_key_and_signs_as_it(tmp_path: Path) -> None:
    made = node_keys.make(tmp_path / "site")
    told = argparse.Namespace(
        auth_supernode_private_key=str(made.path), auth_supernode_public_key=None
    )
    loaded = _try_setup_client_authentication(told)
    assert loaded is not None
    private, public = loaded
    assert public_key_to_bytes(public) == made.public_pem
    registered = bytes_to_public_key(made.public_pem)
    assert uses_nist_ec_curve(registered)
    assert verify_signature(registered, b"now", sign_message(private, b"now"))


def test_registration_sends_the_bytes_that_we_know(tmp_path: Path) -> None:
    made = node_keys.make(tmp_path / "site")
    assert try_load_public_key(made.public_path) == made.public_pem


def test_flower_reads_our_secret(tmp_path: Path) -> None:
    path = tokens.ensure_secret(tmp_path / "superexec")
    assert load_superexec_auth_secret(str(path)) == path.read_bytes()


MAKE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from umbel.identity import node_keys, tokens
from umbel.identity.authority import Authority

root = Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
made = Authority.create(root / "ca", "f", now=datetime.now(UTC), days=9, secret=None)
print(made.certificate.serial_number, node_keys.ensure(root / "site").fingerprint,
      tokens.load(tokens.ensure(root / "tokens", "alice")))
"""


def test_processes_that_start_at_once_agree(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", MAKE, str(tmp_path)]
    pipe = subprocess.PIPE
    started = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = {process.communicate(timeout=30)[0] for process in started}
    assert len(answers) == 1
    assert all(process.returncode == 0 for process in started)
