from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from flwr.common.constant import ErrorCode

from umbel.flower.fast import claims

if TYPE_CHECKING:
    from tests.integration.fast.conftest import Link


def test_stock_flower_gives_a_message_once(link: Link) -> None:
    """The reason for all this; should it fail one day, claims are not needed any more."""
    message_id = link.stored("hello")
    assert link.node_pulls() == [message_id]
    assert link.node_pulls() == []


@pytest.mark.usefixtures("provisional")
class TestForNodes:
    """What a SuperNode pulls."""

    def test_an_unconfirmed_message_is_given_again_but_not_for_ever(self, link: Link) -> None:
        message_id = link.stored("hello")
        pulls = [link.node_pulls() for _ in range(claims.LIMIT + 3)]
        assert pulls == [[message_id]] * (1 + claims.LIMIT) + [[]] * 2

    def test_a_confirmed_message_is_not_given_again(self, link: Link) -> None:
        message_id = link.stored("hello")
        assert link.node_pulls() == [message_id]
        assert link.node_pulls() == [message_id]
        link.node_confirms(message_id)
        assert link.node_pulls() == []

    def test_an_unconfirmed_message_is_given_again_after_a_restart(self, link: Link) -> None:
        message_id = link.stored("hello")
        assert link.node_pulls() == [message_id]
        link.restart()
        assert link.node_pulls() == [message_id]

    def test_a_confirmed_message_is_not_given_again_after_a_restart(self, link: Link) -> None:
        message_id = link.stored("hello")
        assert link.node_pulls() == [message_id]
        link.node_confirms(message_id)
        link.restart()
        assert link.node_pulls() == []

    def test_a_message_with_a_reply_is_not_given_again(self, link: Link) -> None:
        message_id = link.stored("hello")
        assert link.node_pulls() == [message_id]
        link.stored("there", reply_to=message_id)
        assert link.node_pulls() == []

    def test_a_message_goes_to_its_own_node_only(self, link: Link) -> None:
        other = link.joined()
        message_id = link.stored("hello")
        assert link.node_pulls(other) == []
        assert link.node_pulls() == [message_id]
        assert link.node_pulls(other) == []

    def test_messages_keep_their_order_and_each_has_its_own_limit(self, link: Link) -> None:
        first, second = link.stored("first"), link.stored("second")
        pulls = [link.node_pulls() for _ in range(2 * (1 + claims.LIMIT) + 1)]
        each = 1 + claims.LIMIT
        assert pulls == [[first]] * each + [[second]] * each + [[]]

    def test_the_next_message_comes_after_the_first_is_confirmed(self, link: Link) -> None:
        first, second = link.stored("first"), link.stored("second")
        assert link.node_pulls() == [first]
        link.node_confirms(first)
        assert link.node_pulls() == [second]

    def test_a_message_whose_node_is_gone_is_not_given_to_it_later(self, link: Link) -> None:
        """The ServerApp was told that it failed: to work on it would be in vain."""
        message_id = link.stored("hello")
        assert link.state.deactivate_node(link.site.node_id)
        (told,) = link.serverapp_pulls(message_id)
        assert told.HasField("error")
        assert link.state.activate_node(link.site.node_id, 30)
        assert link.node_pulls() == []

    def test_what_a_node_had_when_it_left_is_told_as_failed_also_if_it_is_back_at_once(
        self, link: Link
    ) -> None:
        lost = link.stored("hello")
        assert link.node_pulls() == [lost]
        link.node_confirms(lost)
        assert link.serverapp_pulls(lost) == []
        link.comes_again()
        (told,) = link.serverapp_pulls(lost)
        assert told.error.code == ErrorCode.NODE_UNAVAILABLE
        assert told.metadata.reply_to_message_id == lost

    def test_a_reply_that_was_half_sent_when_the_node_left_is_told_as_failed(
        self, link: Link
    ) -> None:
        asked = link.stored("hello")
        link.node_pulls()
        link.node_confirms(asked)
        reply = link.made("there", reply_to=asked)
        link.announced(reply)  # its objects were never pushed
        link.comes_again()
        (told,) = link.serverapp_pulls(asked)
        assert told.error.code == ErrorCode.NODE_UNAVAILABLE
        assert reply.metadata.message_id not in link.state.object_store

    def test_what_a_node_did_not_confirm_waits_for_it_and_what_it_answered_counts(
        self, link: Link
    ) -> None:
        done, next_one = link.stored("first"), link.stored("second")
        link.node_pulls()
        link.node_confirms(done)
        reply = link.stored("there", reply_to=done)
        assert link.node_pulls() == [next_one]
        link.comes_again()
        assert link.node_pulls() == [next_one]
        assert [m.metadata.message_id for m in link.serverapp_pulls(done, next_one)] == [reply]

    def test_another_node_loses_nothing_nor_one_that_is_refused(self, link: Link) -> None:
        message_id = link.stored("hello")
        link.node_pulls()
        link.node_confirms(message_id)
        link.joined()
        assert not link.state.activate_node(link.site.node_id, 30)  # it is online
        assert link.serverapp_pulls(message_id) == []


@pytest.mark.usefixtures("provisional")
class TestForServerApps:
    """What a ServerApp pulls."""

    def test_an_unconfirmed_reply_is_given_again(self, link: Link) -> None:
        asked = link.stored("hello")
        link.node_pulls()
        reply_id = link.stored("there", reply_to=asked)
        for _ in range(3):
            assert [m.metadata.message_id for m in link.serverapp_pulls(asked)] == [reply_id]

    def test_an_unconfirmed_reply_is_given_again_after_a_restart(self, link: Link) -> None:
        asked = link.stored("hello")
        link.node_pulls()
        reply_id = link.stored("there", reply_to=asked)
        link.serverapp_pulls(asked)
        link.restart()
        assert [m.metadata.message_id for m in link.serverapp_pulls(asked)] == [reply_id]

    def test_a_confirmed_reply_is_deleted_with_its_message(self, link: Link) -> None:
        asked = link.stored("hello")
        link.node_pulls()
        link.node_confirms(asked)
        reply_id = link.stored("there", reply_to=asked)
        assert len(link.serverapp_pulls(asked)) == 1
        assert (link.state.num_message_ins(), link.state.num_message_res()) == (1, 1)
        link.serverapp_confirms(reply_id)
        assert (link.state.num_message_ins(), link.state.num_message_res()) == (0, 0)
        assert len(link.state.object_store) == 0

    def test_other_replies_stay_when_one_is_confirmed(self, link: Link) -> None:
        first, second = link.stored("first"), link.stored("second")
        replies = [link.stored(text, reply_to=text_id) for text, text_id in
                   (("to first", first), ("to second", second))]  # fmt: skip
        assert len(link.serverapp_pulls(first, second)) == 2
        link.serverapp_confirms(replies[0])
        assert [m.metadata.message_id for m in link.serverapp_pulls(second)] == [replies[1]]

    def test_a_pull_without_a_reply_claims_nothing(self, link: Link) -> None:
        asked = link.stored("hello")
        assert link.serverapp_pulls(asked) == []
        assert link.node_pulls() == [asked]

    def test_a_message_that_is_told_as_failed_is_deleted_as_by_stock_flower(
        self, link: Link
    ) -> None:
        asked = link.stored("hello")
        assert link.state.deactivate_node(link.site.node_id)
        link.serverapp_pulls(asked)
        assert link.state.num_message_ins() == 0

    def test_stopping_a_run_deletes_what_was_claimed(self, link: Link) -> None:
        asked = link.stored("hello")
        link.node_pulls()
        link.stored("there", reply_to=asked)
        link.serverapp_pulls(asked)
        assert link.state.stop_run(link.run_id)
        assert (link.state.num_message_ins(), link.state.num_message_res()) == (0, 0)
