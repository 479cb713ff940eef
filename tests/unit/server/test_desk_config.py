from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from umbel.server.desk.__main__ import main
from umbel.server.desk.config import DeskConfig, DeskConfigInvalid, read


def told(config: DeskConfig, **changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(config.to_json())
    return {key: value for key, value in {**data, **changes}.items() if value is not None}


def test_what_is_written_is_read_again(config: DeskConfig, tmp_path: Path) -> None:
    path = tmp_path / "desk.json"
    path.write_text(config.to_json())
    assert read(path) == config
    assert sorted(json.loads(config.to_json())) == sorted(
        ["federation", "socket", "control", "ca", "tokenFile", "roster", "runs", "status"]
    )


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"federation": None}, "federation"),
        ({"federation": "../x"}, "federation"),
        ({"socket": "desk.sock"}, "socket"),
        ({"control": "127.0.0.1"}, "control"),
        ({"tokenFile": 7}, "tokenFile"),
        ({"token_file": "/t"}, "token_file"),
        ({"insecure": True}, "insecure"),
    ],
)
def test_a_mistake_is_named(
    changes: dict[str, Any], word: str, config: DeskConfig, tmp_path: Path
) -> None:
    path = tmp_path / "desk.json"
    path.write_text(json.dumps(told(config, **changes)))
    with pytest.raises(DeskConfigInvalid, match=word):
        read(path)


def test_a_missing_or_broken_file_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "desk.json"
    assert main([str(path)]) == 2
    path.write_text("{")
    assert main([str(path)]) == 2
    assert main([]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line[:4] for line in lines] == ["U246", "U246", "usag"]
