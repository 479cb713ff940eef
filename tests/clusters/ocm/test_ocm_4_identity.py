"""Identity and TLS: sites prove who they are by a way that only their own cluster has."""

from __future__ import annotations

import pytest
from tests.clusters.ocm.stories import Federation, Person

pytestmark = pytest.mark.timeout(600)


def test_an_app_trains_across_two_clusters_over_tls_with_node_authentication(
    hospitals: Federation, owner: Person
) -> None:
    ended = owner.runs()
    assert ended.status == "completed"
    assert ended.rounds == [[0, 1]] * 3
    assert ended.model == [4.5] * 3  # each round adds the mean of 1 and 2
    keys = {site["fingerprint"] for site in hospitals.seen()["status"]["sites"]}
    assert len(keys) == 2
