"""The peer: the same federation, made by a shell script of stock Flower commands."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BIN = Path(sys.executable).parent

SCRIPT = r"""
set -euo pipefail
cd "$1"; sites=$2; port=$3
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=ca \
  -keyout ca.key -out ca.crt 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost \
  -keyout server.key -out server.csr 2>/dev/null
printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > san
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile san \
  -out server.pem 2>/dev/null
head -c 32 /dev/urandom > secret
mkdir -p home
printf '[superlink]\ndefault = "fed"\n[superlink.fed]\naddress = "127.0.0.1:%s"\n' "$port" > home/config.toml
printf 'root-certificates = "%s/ca.crt"\ninsecure = false\n' "$PWD" >> home/config.toml
tls="--ssl-ca-certfile ca.crt --ssl-certfile server.pem --ssl-keyfile server.key"
flower-superlink --host 127.0.0.1 --port "$port" --isolation process $tls --enable-supernode-auth \
  --database state.db --superexec-auth-secret-file secret --disable-runtime-dependency-installation \
  > superlink.log 2>&1 & echo $! >> pids
flower-superexec --runtime-api-address "127.0.0.1:$port" --root-certificates ca.crt \
  --superexec-auth-secret-file secret > exec.log 2>&1 & echo $! >> pids
until curl -sf --cacert ca.crt "https://127.0.0.1:$port/health" > /dev/null; do sleep 0.1; done
for i in $(seq 1 "$sites"); do
  ssh-keygen -q -t ecdsa -b 256 -N '' -f "node$i"
  flwr supernode register "node$i.pub" fed --name "site-$i" > "register$i.log" 2>&1 &
done
wait $(jobs -p | tail -n "$sites")
for i in $(seq 1 "$sites"); do
  runtime=$((port + i))
  flower-supernode --superlink "127.0.0.1:$port" --root-certificates ca.crt \
    --auth-supernode-private-key "node$i" --port "$runtime" --isolation process $tls \
    --superexec-auth-secret-file secret --node-config "partition-id=$((i - 1)) num-partitions=$sites" \
    > "node$i.log" 2>&1 & echo $! >> pids
  flower-superexec --runtime-api-address "127.0.0.1:$runtime" --root-certificates ca.crt \
    --superexec-auth-secret-file secret > "exec$i.log" 2>&1 & echo $! >> pids
done
until [ "$(grep -l 'SuperNode ID' node*.log 2>/dev/null | wc -l)" = "$sites" ]; do sleep 0.05; done
"""


def stock_environment(folder: Path) -> dict[str, str]:
    """Set what Flower's documentation asks for."""
    return {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "FLWR_HOME": str(folder / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
    }


def free_range(count: int) -> int:
    """Find `count` free ports in a row; two who look at once find others."""
    for first in random.sample(range(21_000, 31_000, 100), 100):
        probes = []
        try:
            for port in range(first, first + count):
                probe = socket.socket()
                probes.append(probe)
                probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        else:
            return first
        finally:
            for probe in probes:
                probe.close()
    raise SystemExit("no free ports")


@contextmanager
def stock(sites: int) -> Iterator[tuple[float, Path]]:
    """Run the script; gives the seconds to ready."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        began_s = time.perf_counter()
        command = ["bash", "-c", SCRIPT, "stock", text, str(sites), str(free_range(sites + 1))]
        try:
            subprocess.run(command, env=stock_environment(folder), check=True, timeout=300)
            yield time.perf_counter() - began_s, folder
        finally:
            for pid in reversed((folder / "pids").read_text().split()):
                end(int(pid))


def end(pid: int) -> None:
    """End a process that we started."""
    try:
        os.kill(pid, signal.SIGTERM)
        for _ in range(100):
            os.kill(pid, 0)
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
