"""A real SuperLink in this process: its state in a file, its app called without a network."""

from __future__ import annotations

import asyncio
import shutil
import warnings
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ArrayRecord, ConfigRecord, RecordDict
from flwr.app.message.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.constant import NOOP_FLWR_AID, SUPERLINK_NODE_ID, TIMESTAMP_HEADER
from flwr.proto import fleet_pb2, message_pb2, node_pb2, runtime_pb2
from flwr.server.superlink.linkstate import sql_linkstate
from flwr.supercore.constant import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
    NOOP_FEDERATION_ID,
    TASK_TOKEN_HEADER,
    TaskType,
)
from flwr.supercore.date import now
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.primitives.asymmetric import (
    generate_key_pairs,
    public_key_to_bytes,
    sign_message,
)
from flwr.superlink import main as superlink_main
from flwr.superlink.config_loader import get_federation_manager, get_objectstore_linkstate_factories
from flwr.superlink.servicer.fleet import fleet_handlers
from flwr.superlink.servicer.runtime import runtime_handlers

from umbel.flower.fast import claims
from umbel.flower.fast.asgi import App
from umbel.flower.fast.batch import Batch
from umbel.flower.fast.bells import Bells
from umbel.flower.fast.shortcut import Shortcut

Headers = Mapping[str, str]
TTL_S = 1000.0


@dataclass
class Seen:
    """What a client got."""

    status: int = 0
    kind: str = ""
    body: bytes = b""
    whole: bool = False


class Visit:
    """A client of an ASGI app, which may leave."""

    def __init__(self, path: str, body: bytes, headers: Headers | None = None) -> None:
        self.path = path
        self.body = body
        self.headers = dict(headers or {"content-type": "application/protobuf"})
        self.seen = Seen()
        self.left = asyncio.Event()
        self._asked = False

    async def pay(self, app: App, method: str = "POST") -> Seen:
        """Ask, and see what comes."""
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": self.path, "raw_path": self.path.encode(), "root_path": "",
            "query_string": b"", "client": ("test", 1), "server": ("test", 80),
            "headers": [(k.lower().encode(), v.encode()) for k, v in self.headers.items()],
        }  # fmt: skip
        await app(scope, self._receive, self._send)
        return self.seen

    async def _receive(self) -> MutableMapping[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, event: MutableMapping[str, Any]) -> None:
        if self.left.is_set():
            return
        if event["type"] == "http.response.start":
            self.seen.status = event["status"]
            self.seen.kind = dict(event["headers"]).get(b"content-type", b"").decode()
        else:
            self.seen.body += event.get("body", b"")
            self.seen.whole = not event.get("more_body")


class Site:
    """A SuperNode's key, and how it signs."""

    def __init__(self) -> None:
        self._key, public = generate_key_pairs()
        self.public: bytes = public_key_to_bytes(public)
        self.node_id = 0

    def headers(self) -> dict[str, str]:
        """Sign as a SuperNode does."""
        at = now().isoformat()
        return {
            "content-type": "application/protobuf",
            TIMESTAMP_HEADER: at,
            FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(self.public).decode(),
            FLEET_HTTP_SIGNATURE_HEADER: b64encode(sign_message(self._key, at.encode())).decode(),
        }

    @property
    def node(self) -> Any:
        """Its name in requests."""
        return node_pb2.Node(node_id=self.node_id)


class Link:
    """A SuperLink with one run and one node, both active."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._open()
        self.site = self.joined()
        self.run_id: int = self.state.create_run(
            "a/b", "1.0.0", "", {}, NOOP_FEDERATION_ID, None, NOOP_FLWR_AID, TaskType.SERVER_APP
        )
        task_id = self.state.get_run_info(run_ids=[self.run_id])[0].primary_task_id
        self.token: str = self.state.claim_task(task_id)
        assert self.state.activate_task(task_id)
        self.task: Any = self.state.get_task_by_token(self.token)

    def _open(self) -> None:
        _, factory = get_objectstore_linkstate_factories(
            str(self._database), get_federation_manager()
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Flower's own Alembic settings
            self.state: Any = factory.state()

    def close(self) -> None:
        """Close the database."""
        self.state._engine.dispose()
        self.state.object_store._engine.dispose()

    def restart(self) -> None:
        """Open the database anew, with an empty memory."""
        self.close()
        claims._given_again.clear()
        self._open()

    def app(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Make Flower's app on this state."""
        monkeypatch.setenv("FLWR_DATABASE", str(self._database))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            app: Any = superlink_main.create_app()
        self.close()
        self.state = app.state.linkstate_factory.state()
        return app

    def joined(self) -> Site:
        """Let another node come."""
        site = Site()
        site.node_id = self.state.create_node(NOOP_FLWR_AID, "none", site.public, 30)
        assert self.state.activate_node(site.node_id, 30)
        return site

    def comes_again(self) -> None:
        """Let the node leave and be back before anybody looks."""
        assert self.state.deactivate_node(self.site.node_id)
        assert self.state.activate_node(self.site.node_id, 30)

    @property
    def token_headers(self) -> dict[str, str]:
        """What a ServerApp sends along; its task is kept alive."""
        assert self.state.acknowledge_task_heartbeat(self.task.task_id)
        return {"content-type": "application/protobuf", TASK_TOKEN_HEADER: self.token}

    def made(self, content: str | ArrayRecord, reply_to: str = "") -> Any:
        """Make a message to the node, or its reply."""
        here, there = SUPERLINK_NODE_ID, self.site.node_id
        record = ConfigRecord({"text": content}) if isinstance(content, str) else content
        metadata = Metadata(
            run_id=self.run_id, message_id="", reply_to_message_id=reply_to, group_id="1",
            src_node_id=there if reply_to else here, dst_node_id=here if reply_to else there,
            created_at=now().timestamp(), ttl=TTL_S / 2 if reply_to else TTL_S,
            message_type="train",
        )  # fmt: skip
        message = make_message(metadata, RecordDict({"content": record}))
        message.metadata.__dict__["_message_id"] = message.object_id
        return message

    def announced(self, message: Any) -> str:
        """Store a message without its objects; gives the session to push them in."""
        session: str = self.state.start_session(self.run_id)
        tree = get_object_tree(message)
        assert self.state.store_message_and_object_tree(message, tree, session)[0]
        return session

    def stored(self, content: str, reply_to: str = "") -> str:
        """Store a message with its objects; gives its id."""
        message = self.made(content, reply_to)
        session = self.announced(message)
        for object_id, body in contents(message).items():
            assert self.state.store_object(self.run_id, session, object_id, body)
        return str(message.metadata.message_id)

    def node_pulls(self, site: Site | None = None) -> list[str]:
        """Pull as a SuperNode; gives the ids of the messages."""
        request = fleet_pb2.PullMessagesRequest(node=(site or self.site).node)
        answer = fleet_handlers.pull_messages(request, self.state, self.state.object_store)
        return [m.metadata.message_id for m in answer.messages_list]

    def node_confirms(self, message_id: str) -> None:
        """Confirm as a SuperNode."""
        request = message_pb2.ConfirmMessageReceivedRequest(
            node=self.site.node, run_id=self.run_id, message_object_id=message_id
        )
        fleet_handlers.confirm_message_received(request, self.state, self.state.object_store)

    def serverapp_pulls(self, *asked: str) -> list[Any]:
        """Pull replies as a ServerApp."""
        request = runtime_pb2.PullAppMessagesRequest(message_ids=asked)
        return list(runtime_handlers.pull_messages(request, self.state, self.task).messages_list)

    def serverapp_confirms(self, message_id: str) -> None:
        """Confirm as a ServerApp."""
        request = message_pb2.ConfirmMessageReceivedRequest(
            run_id=self.run_id, message_object_id=message_id
        )
        runtime_handlers.confirm_message_received(request, self.state, self.task)


def contents(message: Any) -> dict[str, bytes]:
    """Give a message's objects."""
    return {name: each.deflate() for name, each in get_all_nested_objects(message).items()}


Contents = Callable[[Any], dict[str, bytes]]


@pytest.fixture(name="contents")
def contents_of() -> Contents:
    return contents


@pytest.fixture
def visit() -> type[Visit]:
    return Visit


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables: making them takes longest."""
    path = tmp_path_factory.mktemp("empty") / "state.db"
    Link(path).close()
    return path


@pytest.fixture
def link(tmp_path: Path, empty_database: Path) -> Iterator[Link]:
    shutil.copy(empty_database, tmp_path / "state.db")
    opened = Link(tmp_path / "state.db")
    yield opened
    opened.close()


@dataclass(frozen=True)
class Served:
    """A SuperLink's app as Flower makes it, and with the layers around it."""

    link: Link
    app: Any
    bells: Bells
    quick: Batch


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Iterator[Served]:
    database = tmp_path_factory.mktemp("served") / "state.db"
    shutil.copy(empty_database, database)
    link, bells = Link(database), Bells()
    with pytest.MonkeyPatch.context() as monkeypatch:
        app = link.app(monkeypatch)
    app.state.superexec_auth_secret = b"a secret of the executor" * 2
    yield Served(link, app, bells, Batch(Shortcut(app, bells, "SuperLink"), bells, hold_s=5.0))
    link.close()


@pytest.fixture
def provisional(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims are provisional in this test, and only in this one."""
    linkstate: Any = sql_linkstate.SqlLinkState
    changed = ("activate_node", "get_message_ins", "get_message_res")
    for name in (*changed, "delete_messages", "store_object"):
        monkeypatch.setattr(linkstate, name, getattr(linkstate, name))
    for name in ("pull_messages", "confirm_message_received"):
        monkeypatch.setattr(runtime_handlers, name, getattr(runtime_handlers, name))
    monkeypatch.setattr(claims, "_given_again", Counter())
    claims.install()
