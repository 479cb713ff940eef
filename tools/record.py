"""Records real commands in a terminal as an animated SVG.

    python3 -m venv /tmp/recorder && /tmp/recorder/bin/pip install pyte
    PATH=$PWD/.venv/bin:$PATH /tmp/recorder/bin/python tools/record.py docs/pictures/up.svg

The commands run in a UMBEL_HOME of their own, which is taken down and removed afterwards. Output and
timing are what the terminal received; only waits longer than GAP_S are shortened to GAP_S.
"""  # noqa: INP001

from __future__ import annotations

import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import pyte  # type: ignore[import-not-found]  # only this tool needs it

COMMANDS = ("umbel up", "umbel run", "umbel status")
COLUMNS, ROWS = 92, 34
GAP_S = 2.0
FRAME_S = 0.25
KEY_S = 0.05
PAUSE_S = 1.5
HOLD_S = 6.0

CELL_W, CELL_H, PAD, BAR = 8.4, 18.0, 14.0, 26.0
INK, PAPER, EDGE = "#d7dce2", "#14181d", "#3a424c"
COLOURS = {
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "yellow": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#f0f6fc",
    "brightblack": "#8b949e",
}

Run = tuple[int, str, str, bool]  # column, text, colour, bold
Row = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """What the terminal received, and when."""

    at_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of text and the time for which it stands."""

    row: int
    runs: Row
    begin_s: float
    end_s: float


def perform(command: str) -> Iterator[Chunk]:
    """Run the command in a terminal of its own; give what it writes."""
    began_s = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        words = shlex.split(command)
        os.execvp(words[0], words)  # noqa: S606  # a list, no shell
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    half = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the other side is closed
            break
        if not data:
            break
        half += data
        text = half.decode(errors="ignore")
        half = half[len(text.encode()) :]
        yield Chunk(time.monotonic() - began_s, text)
    os.close(terminal)
    os.waitpid(pid, 0)


def play(commands: Sequence[str]) -> list[Chunk]:
    """Type and run the commands one after another, on one time line."""
    line: list[Chunk] = []
    now_s = 0.5
    for command in commands:
        line.append(Chunk(now_s, ("\r\n" if line else "") + "\x1b[1;36m$\x1b[0m "))
        for letter in command:
            now_s += KEY_S
            line.append(Chunk(now_s, letter))
        now_s += 8 * KEY_S
        line.append(Chunk(now_s, "\r\n"))
        before_s = 0.0
        for chunk in perform(command):
            now_s += min(chunk.at_s - before_s, GAP_S)
            before_s = chunk.at_s
            line.append(Chunk(now_s, chunk.text))
        now_s += PAUSE_S
    return line


def photograph(line: Sequence[Chunk]) -> list[tuple[float, list[Row]]]:
    """Give the screen as it was at each moment that is worth a frame."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    frames: list[tuple[float, list[Row]]] = [(0.0, _rows(screen))]
    for number, chunk in enumerate(line):
        stream.feed(chunk.text)
        following = line[number + 1].at_s if number + 1 < len(line) else float("inf")
        if following - frames[-1][0] < FRAME_S:
            continue
        frames.append((max(chunk.at_s, frames[-1][0] + FRAME_S / 4), _rows(screen)))
    return frames


def _rows(screen: pyte.Screen) -> list[Row]:
    return [_row(screen.buffer[number]) for number in range(ROWS)]


def _row(cells: dict[int, pyte.screens.Char]) -> Row:
    runs: list[Run] = []
    for column in range(COLUMNS):
        cell = cells[column]
        style = (_colour(cell.fg), bool(cell.bold))
        if runs and runs[-1][2:] == style and runs[-1][0] + len(runs[-1][1]) == column:
            begin, text, *_ = runs[-1]
            runs[-1] = (begin, text + cell.data, *style)
        else:
            runs.append((column, cell.data, *style))
    return tuple(
        (begin, bare, ink, bold) for begin, text, ink, bold in runs if (bare := text.rstrip())
    )


def _colour(name: str) -> str:
    if name == "default":
        return INK
    return COLOURS.get(name, f"#{name}" if len(name) == len("d7dce2") else INK)


def stand(frames: Sequence[tuple[float, list[Row]]], end_s: float) -> list[Shown]:
    """Say of every row's text from when to when it stands."""
    found: list[Shown] = []
    for row in range(ROWS):
        begin_s, runs = 0.0, frames[0][1][row]
        for at_s, rows in frames[1:]:
            if rows[row] != runs:
                found.append(Shown(row, runs, begin_s, at_s))
                begin_s, runs = at_s, rows[row]
        found.append(Shown(row, runs, begin_s, end_s))
    return [shown for shown in found if shown.runs]


def draw(shown: Sequence[Shown], end_s: float, title: str) -> str:
    """Write the SVG: rows that stand for the same time share one animation."""
    spans = sorted({(s.begin_s, s.end_s) for s in shown})
    used = max(s.row for s in shown) + 1
    width, height = COLUMNS * CELL_W + 2 * PAD, used * CELL_H + BAR + 2 * PAD
    rules, groups = [], []
    for number, (begin_s, stop_s) in enumerate(spans):
        rules.append(_rule(f"k{number}", begin_s, stop_s, end_s))
        texts = "".join(_text(s) for s in shown if (s.begin_s, s.end_s) == (begin_s, stop_s))
        groups.append(f'<g class="f" id="k{number}">{texts}</g>')
    dots = "".join(f'<circle cx="{PAD + 6 + 18 * n}" cy="{BAR / 2 + 2}" r="5"/>' for n in range(3))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">
<title>{escape(title)}</title>
<style>
text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre;fill:{INK}}}
.b{{font-weight:700}}
.f{{visibility:hidden;animation:{end_s:.2f}s step-end infinite}}
{"".join(rules)}
@media (prefers-reduced-motion:reduce){{.f{{animation:none!important}}}}
</style>
<rect width="{width:g}" height="{height:g}" rx="8" fill="{PAPER}" stroke="{EDGE}"/>
<g fill="{EDGE}">{dots}</g>
{chr(10).join(groups)}
</svg>
"""


def _rule(name: str, begin_s: float, stop_s: float, end_s: float) -> str:
    """Show a group from begin to stop; the last picture stays where nothing moves."""
    last = stop_s >= end_s
    steps = [] if begin_s == 0 else ["0%{visibility:hidden}"]
    steps.append(f"{100 * begin_s / end_s:.3f}%{{visibility:visible}}")
    steps.append("100%{visibility:visible}" if last else f"{100 * stop_s / end_s:.3f}%,100%{{visibility:hidden}}")  # fmt: skip
    still = "visibility:visible;" if last else ""
    return f"#{name}{{{still}animation-name:{name}}}@keyframes {name}{{{''.join(steps)}}}\n"


def _text(shown: Shown) -> str:
    y = BAR + PAD + shown.row * CELL_H + 13
    texts = []
    for column, text, ink, bold in shown.runs:
        place = f'x="{PAD + column * CELL_W:.1f}" y="{y:g}"'
        weight = ' class="b"' if bold else ""
        colour = "" if ink == INK else f' style="fill:{ink}"'
        length = f' textLength="{len(text) * CELL_W:.1f}"'
        texts.append(f"<text {place}{length}{weight}{colour}>{escape(text)}</text>")
    return "".join(texts)


def main(arguments: Sequence[str]) -> int:
    """Record into the file that is named, the commands that are named or the usual ones."""
    goal, commands = Path(arguments[0]).absolute(), tuple(arguments[1:]) or COMMANDS
    with tempfile.TemporaryDirectory(prefix="umbel-record-") as home:
        os.environ.update(UMBEL_HOME=home, TERM="xterm-256color", COLORTERM="")
        os.chdir(home)
        try:
            line = play(commands)
        finally:
            subprocess.run(["umbel", "down"], check=False, capture_output=True)
    frames = photograph(line)
    end_s = frames[-1][0] + HOLD_S
    goal.write_text(draw(stand(frames, end_s), end_s, ", ".join(commands)))
    sys.stdout.write(f"{goal}: {len(frames)} frames, {end_s:.0f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
