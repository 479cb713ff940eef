"""What is read once in a transaction, and what is summed up in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState

from umbel.flower.fast import memo

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Link


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count what really reaches the database."""
    seen: list[str] = []
    state: Any = SqlLinkState

    def counting(name: str, stock: Any) -> Any:
        def read(self: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(name)
            return stock(self, *args, **kwargs)

        return read

    for name in (*memo.READS, "store_traffic"):
        monkeypatch.setattr(state, name, counting(name, getattr(state, name)))
    memo.install()
    return seen


def ask(link: Link) -> tuple[Any, ...]:
    return (
        link.state.get_node_id_by_public_key(link.site.public),
        link.state.get_run_status({link.run_id}),
        link.state.get_task_by_token(link.token).task_id,
    )


def traffic(link: Link) -> tuple[int, int]:
    (run,) = link.state.get_run_info(run_ids=[link.run_id])
    return run.bytes_sent, run.bytes_recv


def test_in_a_unit_each_is_read_once_and_outside_each_time(link: Link, reads: list[str]) -> None:
    with link.state.session(), memo.unit_of_work(link.state):
        first = ask(link)
        assert ask(link) == first
    assert reads == list(memo.READS)
    assert ask(link) == first
    assert reads == 2 * list(memo.READS)


@pytest.mark.usefixtures("reads")
def test_other_questions_get_other_answers(link: Link) -> None:
    other = link.joined()
    with link.state.session(), memo.unit_of_work(link.state):
        assert link.state.get_node_id_by_public_key(link.site.public) == link.site.node_id
        assert link.state.get_node_id_by_public_key(public_key=other.public) == other.node_id
        assert link.state.get_task_by_token("no such token") is None
        assert link.state.get_task_by_token(link.token) is not None


def test_traffic_is_written_once_with_its_sum(link: Link, reads: list[str]) -> None:
    sent, received = traffic(link)
    with link.state.session(), memo.unit_of_work(link.state):
        for _ in range(5):
            link.state.store_traffic(link.run_id, bytes_sent=2, bytes_recv=3)
        assert "store_traffic" not in reads
    assert reads.count("store_traffic") == 1
    assert traffic(link) == (sent + 10, received + 15)


def test_what_is_undone_leaves_no_traffic(link: Link, reads: list[str]) -> None:
    before = traffic(link)

    def fail() -> None:
        with link.state.session(), memo.unit_of_work(link.state):
            link.state.store_traffic(link.run_id, bytes_sent=2, bytes_recv=3)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert traffic(link) == before
    assert "store_traffic" not in reads
