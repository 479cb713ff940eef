"""What all doors share: who is known, the links to the SuperLink, the audit log, the limits."""

from __future__ import annotations

import time
from collections import Counter

from umbel.errors import UmbelError
from umbel.flower.routes import Api
from umbel.gate.audit import Audit, Entry
from umbel.gate.config import Config
from umbel.gate.credentials import Credentials
from umbel.gate.desk import ROLE, USER
from umbel.gate.head import Head
from umbel.gate.policy import STRANGER, Decision, Policy
from umbel.gate.proof import Proofs
from umbel.gate.protocol import Connection
from umbel.gate.relay import Exchange
from umbel.gate.throttle import Throttle
from umbel.gate.upstream import Pool

_TOLD = frozenset({"fleet/activate-node", "fleet/deactivate-node"})
_REFUSALS = frozenset({401, 403, 408, 413, 429})


class House:
    """One gate, whatever its doors."""

    def __init__(self, config: Config) -> None:
        limits = config.limits
        self.limits = limits
        self.credentials = Credentials(config.users, config.sites)
        self.pool = Pool(config.upstream, idle_seconds=limits.upstream_idle_seconds)
        self.desk = None
        if config.desk is not None:
            idle = limits.upstream_idle_seconds
            self.desk = Pool(config.desk, idle_seconds=idle, name="desk")
        self.audit = Audit(
            config.audit, size=limits.audit_bytes, files=limits.audit_files, clock=time.time
        )
        self.counts: Counter[str] = Counter()  # requests by door
        self.connections: set[Connection] = set()
        self.stopping = False
        self._policy = Policy(self.credentials, Proofs(), has_desk=config.desk is not None)
        self._throttle = Throttle(limits.failures_per_minute)

    def enters(self, connection: Connection) -> None:
        """A handshake is done."""
        self.connections.add(connection)

    def leaves(self, connection: Connection) -> None:
        """A connection is closed."""
        self.connections.discard(connection)

    def judge(self, api: Api, head: Head, peer: str) -> Decision:
        """Decide about a request."""
        decision = self._policy.decide(api, head, time.time())
        if api is not Api.CONTROL:
            return decision
        if decision.who == STRANGER and self._throttle.fail(peer, time.monotonic()):
            return Decision(STRANGER, decision.what, 429, decision.why)
        if decision.allowed and not self.audit.ready:
            return Decision(decision.who, decision.what, 503, "the audit log cannot be written")
        return decision

    def exchange(self, client: Connection, head: Head, decision: Decision) -> Exchange:
        """Make the exchange that carries an allowed request."""
        person = decision.at_desk
        if person is None or self.desk is None:
            return Exchange(client, head, self.pool)
        speaker = {USER: person.name, ROLE: person.role.value}
        return Exchange(client, head.for_desk(speaker), self.desk)

    def note(self, entry: Entry) -> None:
        """Write down what people do, who is refused, and sites that come and go; count the rest."""
        self.counts[entry.door] += 1
        if entry.who == STRANGER or (entry.status in _REFUSALS and entry.door != Api.CONTROL):
            self.audit.refusal(entry)
        elif entry.door == Api.CONTROL or entry.what in _TOLD:
            self.audit.write(entry)

    def sweep(self) -> list[UmbelError]:
        """Do what is due: time-outs, changed files, counted refusals; give what went wrong."""
        now = time.monotonic()
        late = [c for c in self.connections if c.deadline is not None and c.deadline < now]
        for connection in late:
            connection.expire()
        for pool in self._pools():
            pool.expire(now)
        self.audit.settle()
        return self.credentials.refresh()

    def close(self) -> None:
        """End what is left."""
        for connection in list(self.connections):
            connection.abort()
        for pool in self._pools():
            pool.close()
        self.audit.settle(everything=True)
        self.audit.event("gate stopped", requests=dict(self.counts))
        self.audit.close()

    def _pools(self) -> list[Pool]:
        return [self.pool] if self.desk is None else [self.pool, self.desk]
