"""What is pushed again, since the answer to the first time was lost, is taken as what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from flwr.proto import fleet_pb2, message_pb2, node_pb2, runtime_pb2
from flwr.superlink.servicer.fleet import fleet_handlers
from flwr.superlink.servicer.runtime import runtime_handlers
from tests.integration.exactness.wire import Parcel, parcel

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Link

pytestmark = pytest.mark.usefixtures("provisional")


@dataclass
class Upload:
    """A message or a reply on its way to the SuperLink."""

    link: Link
    parcel: Parcel
    node: Any
    session: str = ""

    def announce(self) -> list[str]:
        """Push the message; gives the objects that are wanted."""
        rows = {"messages_list": [self.parcel.proto], "message_object_trees": [self.parcel.tree]}
        answer: Any
        if self.node.node_id == 1:
            asked = runtime_pb2.PushAppMessagesRequest(**rows)
            answer = runtime_handlers.push_messages(asked, self.link.state, self.link.task)
            assert list(answer.message_ids) == [self.parcel.message_id]
        else:
            request = fleet_pb2.PushMessagesRequest(node=self.node, **rows)
            answer = fleet_handlers.push_messages(request, self.link.state)
        self.session = answer.session_id
        return list(answer.objects_to_push)

    def push(self, name: str) -> bool:
        """Push one object; says whether the SuperLink has it."""
        request = message_pb2.PushObjectRequest(
            node=self.node, run_id=self.link.run_id, object_id=name,
            object_content=self.parcel.objects[name], session_id=self.session,
        )  # fmt: skip
        if self.node.node_id == 1:
            return bool(
                runtime_handlers.push_object(request, self.link.state, self.link.task).stored
            )
        return bool(fleet_handlers.push_object(request, self.link.state).stored)


@pytest.fixture(params=["message", "reply"])
def upload(request: pytest.FixtureRequest, link: Link) -> Upload:
    """What a ServerApp or a SuperNode pushes."""
    node_id = link.site.node_id
    if request.param == "message":
        return Upload(link, parcel(link.run_id, node_id, "hello"), node_pb2.Node(node_id=1))
    asked = link.stored("hello")
    link.node_pulls()
    link.node_confirms(asked)
    return Upload(link, parcel(link.run_id, node_id, "there", asked), link.site.node)


def test_a_message_that_is_pushed_again_is_the_same_one(upload: Upload) -> None:
    first = upload.announce()
    assert upload.announce() == first
    assert all(upload.push(name) for name in first)


def test_a_message_that_is_pushed_again_wants_only_what_is_missing(upload: Upload) -> None:
    first = upload.announce()
    assert upload.push(first[0])
    assert set(upload.announce()) == set(first[1:])


def test_an_object_that_is_pushed_again_is_there(upload: Upload) -> None:
    """Flower's client repeats a push whose answer was lost; "not stored" would end the upload."""
    names = upload.announce()
    assert [upload.push(names[0]) for _ in range(3)] == [True] * 3
    assert all(upload.push(name) for name in names[1:])


def test_the_last_object_that_is_pushed_again_is_there(upload: Upload) -> None:
    names = upload.announce()
    assert [upload.push(name) for name in (*names, names[-1])] == [True] * (len(names) + 1)


def test_an_object_that_nobody_announced_is_not_taken(upload: Upload, link: Link) -> None:
    other = parcel(link.run_id, link.site.node_id, "never announced")
    upload.announce()
    upload.parcel.objects.update(other.objects)
    assert not upload.push(other.message_id)
