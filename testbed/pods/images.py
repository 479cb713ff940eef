"""The images of the test bed: a pause, a Python, and the project itself.

They are made of Debian packages and wheels, without a registry and without a container engine.
Every layer is kept under the name of what it is made of, so a second build finds it there.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from testbed.pods import archive, debian
from testbed.pods.archive import Image
from testbed.pods.commands import run
from testbed.programs import program

PAUSE = "localhost/pause:3.10"
PYTHON = "localhost/python:3.11"
COREDNS = "localhost/coredns:dev"
WHEELS = "localhost/umbel-wheels:dev"  # never run: keeps the layer for the next build
UMBEL = "localhost/umbel:dev"

PROJECT = Path(__file__).parents[2]
SUITE = "bookworm"
MINOR = "3.11"  # the suite's Python
SHELL_PACKAGES = ("busybox-static",)
PYTHON_PACKAGES = (
    *("base-files", "busybox-static", "ca-certificates", "libbz2-1.0", "libc6", "libcrypt1"),
    *("libexpat1", "libffi8", "libgcc-s1", "liblzma5", "libpython3.11-minimal"),
    *("libpython3.11-stdlib", "libsqlite3-0", "libssl3", "libstdc++6", "libuuid1", "netbase"),
    *("python3.11", "python3.11-minimal", "tzdata", "zlib1g"),
)
NOT_NEEDED = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/lintian")
APPLETS = (
    *("sh", "cat", "cp", "date", "dirname", "echo", "env", "false", "head", "hostname", "ip"),
    *("kill", "ls", "mkdir", "mv", "nslookup", "ps", "readlink", "realpath", "rm", "sed"),
    *("sleep", "tail", "test", "touch", "true", "uname", "wget"),
)
USERS = "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
GROUPS = "root:x:0:\nnogroup:x:65534:\n"
CONTENTS = "etc/debian-packages"  # a mirror has one version of each, so none can be asked for
HOME = "opt/umbel"
SITE = f"{HOME}/lib/python{MINOR}/site-packages"
AT_ONCE = 3  # nodes that load images side by side
RECIPE = "3"  # another number: every layer is made anew


def build(cache: Path, *, project: Path | None = PROJECT) -> tuple[Path, ...]:
    """Make all images; give the files that hold them, to be loaded in this order.

    What changes often comes last and is small. Without a project: only what nodes need.
    """
    cache.mkdir(parents=True, exist_ok=True)
    shell, python = shell_layer(cache), python_layer(cache)
    waiting = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; sleep 2147483647 & wait")
    needed = [
        Image(PAUSE, (shell,), waiting),
        Image(PYTHON, (python,), (f"/usr/bin/python{MINOR}",), environment=environment()),
        Image(COREDNS, (program_layer(cache, "coredns"),), ("/coredns",)),
    ]
    nodes = written(cache, "nodes", needed)
    if project is None:
        return (nodes,)
    umbel = project_image(cache, project)
    below = umbel.layers[:-1]
    return (
        nodes,
        written(cache, "below", [Image(WHEELS, below)], below[:1]),
        written(cache, "umbel", [umbel], below),
    )


def project_image(cache: Path, project: Path = PROJECT) -> Image:
    """Describe the image of the project: Python, its dependencies, and last the project itself."""
    layers = (python_layer(cache), wheels_layer(cache, project), project_layer(cache, project))
    own = environment(f"/{HOME}/bin")
    return Image(UMBEL, layers, (f"/{HOME}/bin/umbel",), environment=own)


def with_wheels(cache: Path, name: str, wheels: Sequence[Path]) -> Path:
    """Make an image that has these wheels besides the project; give the file that holds it.

    It is loaded where the project's image is: what is below the project is not in the file.
    """
    umbel = project_image(cache)

    def fill(root: Path) -> None:
        site = root / SITE
        site.mkdir(parents=True)
        run(uv(site, "--no-deps", "--no-index", *map(str, wheels)))
        (root / HOME / "bin").mkdir()
        settle(root)

    about = [hashlib.sha256(path.read_bytes()).hexdigest() for path in wheels]
    kind = name.rpartition("/")[2].replace(":", "-")
    extra = made(cache / f"{kind}-{digest_of(about)}.tar", lambda path: in_folder(path, fill))
    image = replace(umbel, name=name, layers=(*umbel.layers, extra))
    return written(cache, f"{kind}.image", [image], umbel.layers[:-1])


def of_files(cache: Path, name: str, folder: Path) -> Path:
    """Make an image of the folder's files, which nothing can be run from; give its file."""
    about = [f"{p.name} {hashlib.sha256(p.read_bytes()).hexdigest()}" for p in folder.iterdir()]
    kind = name.rpartition("/")[2].replace(":", "-")
    key = digest_of(sorted(about))
    layer = made(cache / f"{kind}-{key}.tar", lambda path: archive.layer_of(folder, path))
    return written(cache, f"{kind}.image", [Image(name, (layer,))])


def written(
    cache: Path, kind: str, images: Sequence[Image], without: Collection[Path] = ()
) -> Path:
    """Give the file with these images; layers of files that are loaded before can be left out."""
    key = digest_of([f"{image}" for image in images])
    return made(cache / f"{kind}-{key}.tar", lambda path: archive.write(images, path, without))


def environment(*folders: str) -> dict[str, str]:
    path = ":".join([*folders, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"])
    return {"PATH": path, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


def load(archives: Iterable[Path], ctr: Path, sockets: Iterable[Path]) -> None:
    """Load the files into every containerd; the kubelets look in the space named k8s.io."""

    def into(socket: Path) -> None:
        for one in archives:
            run([str(ctr), "-a", str(socket), "-n", "k8s.io", "images", "import", str(one)])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(into, sockets))


def made(target: Path, make: Callable[[Path], object]) -> Path:
    """Give the file; make it first if it is not there, whole or not at all.

    Of older ones of the same kind the last is kept: with every change they would fill the disk.
    """
    if not target.exists():
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            make(beside)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
        kind = target.name.rpartition("-")[0]
        others = set(target.parent.glob(f"{kind}-*{target.suffix}")) - {target}
        for other in sorted(others, key=when_made)[:-1]:
            other.unlink(missing_ok=True)
    return target


def when_made(path: Path) -> float:
    """Tell when the file was made; one that another build has removed was made long ago."""
    return path.stat().st_mtime if path.exists() else 0.0


def digest_of(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join([RECIPE, *words]).encode()).hexdigest()[:12]


def in_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Fill a new folder beside the target, and make the layer of it."""
    root = target.with_name(f"{target.name}.root")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    try:
        fill(root)
        archive.layer_of(root, target)
    finally:
        shutil.rmtree(root)


def shell_layer(cache: Path) -> Path:
    """Give the layer of the pause image: a static shell and nothing else."""

    def fill(root: Path) -> None:
        files = debian.unpacked(SUITE, SHELL_PACKAGES, cache)
        (root / "bin").mkdir()
        shutil.copy2(files / "bin/busybox", root / "bin/busybox")
        add_applets(root)

    key = debian.key_of(SUITE, SHELL_PACKAGES, RECIPE)
    return made(cache / f"shell-{key}.tar", lambda path: in_folder(path, fill))


def program_layer(cache: Path, name: str) -> Path:
    """Give a layer that holds one program that we built, and nothing else."""
    built = program(name)

    def fill(root: Path) -> None:
        shutil.copy2(built, root / name)

    key = digest_of([built.parent.name, built.name])
    return made(cache / f"{name}-{key}.tar", lambda path: in_folder(path, fill))


def python_layer(cache: Path) -> Path:
    """Give the layer with Python and a shell; its byte code is compiled in."""

    def fill(root: Path) -> None:
        packages = root.with_name(f"{root.name}.packages")
        try:
            fetched = debian.fetch(SUITE, PYTHON_PACKAGES, packages)
            debian.unpack(fetched, root)
            (root / CONTENTS).write_text("".join(f"{path.stem}\n" for path in fetched))
        finally:
            shutil.rmtree(packages, ignore_errors=True)
        finish(root)

    key = debian.key_of(SUITE, PYTHON_PACKAGES, RECIPE)
    return made(cache / f"python-{key}.tar", lambda path: in_folder(path, fill))


def finish(root: Path) -> None:
    """Do what the packages' own scripts would have done, and drop what nobody reads."""
    for folder in NOT_NEEDED:
        shutil.rmtree(root / folder, ignore_errors=True)
    add_applets(root)
    (root / "usr/bin/python3").symlink_to(f"python{MINOR}")
    (root / "etc/passwd").write_text(USERS)
    (root / "etc/group").write_text(GROUPS)
    for folder, mode in (("tmp", 0o1777), ("proc", 0o755), ("sys", 0o755), ("dev", 0o755)):
        (root / folder).mkdir(exist_ok=True)
        (root / folder).chmod(mode)
    trusted = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_bytes(b"".join(path.read_bytes() for path in trusted))
    (root / "usr/lib/ssl").mkdir(exist_ok=True)
    (root / "usr/lib/ssl/cert.pem").symlink_to("/etc/ssl/certs/ca-certificates.crt")
    compile_in(root, f"usr/lib/python{MINOR}")


def add_applets(root: Path) -> None:
    for applet in APPLETS:
        link = root / "bin" / applet
        if not link.exists():
            link.symlink_to("busybox")


def compile_in(root: Path, folder: str) -> None:
    """Compile Python files in place, if this Python is of the same minor version as the image's."""
    if f"{sys.version_info[0]}.{sys.version_info[1]}" != MINOR:
        return
    where = ["-s", str(root), "-p", "/", str(root / folder)]
    argv = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    # A few files are for other Pythons and do not compile: they are left as they are.
    run(["sh", "-c", '"$@" > /dev/null || true', "compile", *argv, *where])


def uv(site: Path, *what: str) -> list[str]:
    """Give the command that installs wheels for the image's Python into the folder."""
    target = f"{platform.machine()}-manylinux_2_36"
    return [
        *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--target", str(site)),
        *("--python-version", MINOR, "--python-platform", target),
        *what,
    ]


def wheels_layer(cache: Path, project: Path) -> Path:
    """Give the layer with the virtual environment: the project's dependencies, as locked."""
    lock = project / "requirements.lock"

    def fill(root: Path) -> None:
        site = root / SITE
        site.mkdir(parents=True)
        wanted = ("--only-binary", ":all:", "-c", str(lock), "-r", str(project / "pyproject.toml"))
        run(uv(site, *wanted), timeout=900)
        (root / HOME / "bin").mkdir()
        (root / HOME / "bin/python").symlink_to(f"/usr/bin/python{MINOR}")
        (root / HOME / "bin/python3").symlink_to("python")
        settings = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {MINOR}\n"
        (root / HOME / "pyvenv.cfg").write_text(settings)
        settle(root)

    key = digest_of([lock.read_text(), (project / "pyproject.toml").read_text()])
    return made(cache / f"wheels-{key}.tar", lambda path: in_folder(path, fill))


def project_layer(cache: Path, project: Path) -> Path:
    """Give the layer with the project itself: small, made anew with every change."""

    def fill(root: Path) -> None:
        site = root / SITE
        site.mkdir(parents=True)
        run(uv(site, "--no-deps", str(project)), timeout=900)
        (root / HOME / "bin").mkdir()
        settle(root)

    sources = [path for path in sorted((project / "src").rglob("*")) if path.is_file()]
    sources = [path for path in sources if "__pycache__" not in path.parts]
    about = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sources]
    names = [path.relative_to(project).as_posix() for path in sources]
    key = digest_of([*names, *about, (project / "pyproject.toml").read_text()])
    return made(cache / f"project-{key}.tar", lambda path: in_folder(path, fill))


def settle(root: Path) -> None:
    """Put scripts where a virtual environment has them, started by its Python; compile."""
    scripts = root / SITE / "bin"
    for script in sorted(scripts.iterdir()) if scripts.is_dir() else ():
        script.write_bytes(with_python(script.read_bytes(), f"/{HOME}/bin/python"))
        script.rename(root / HOME / "bin" / script.name)
    shutil.rmtree(scripts, ignore_errors=True)
    (root / SITE / ".lock").unlink(missing_ok=True)
    for told in (root / SITE).glob("*.dist-info/direct_url.json"):
        told.unlink()  # names a folder of this machine
    compile_in(root, SITE)


def with_python(script: bytes, python: str) -> bytes:
    """Change the first line of a Python script to this Python; other programs stay as they are."""
    first, newline, rest = script.partition(b"\n")
    if not first.startswith(b"#!") or b"python" not in first:
        return script
    return b"#!" + python.encode() + newline + rest
