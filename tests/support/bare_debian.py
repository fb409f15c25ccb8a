"""A bare Debian in a directory, to see what a new machine lacks. Needs root, debootstrap and a
network."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
# Of this machine's environment, in any case.
_KEPT = ("http_proxy", "https_proxy", "no_proxy", "pip_index_url", "pip_extra_index_url",
         "pip_trusted_host", "pip_default_timeout")


def require_tools(what: str) -> None:
    """Exits with the reason if no system can be made here."""
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        sys.exit(f"{what}: needs root and debootstrap (Debian: apt-get install debootstrap)")


def machine_mirror() -> str:
    """Returns the first Debian mirror of this machine's package sources that has all packages."""
    found = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"], check=True,
                           text=True, stdout=subprocess.PIPE).stdout.split()
    return next(address for address in found if "security" not in address)


def make(root: Path, mirror: str | None = None, packages: str = "ca-certificates",
         release: str = "bookworm") -> None:
    """Makes a minimal Debian 12, or another release, with the package sources, proxy and
    certificates of this one."""
    log = root.with_suffix(".log")
    with log.open("w") as output:
        mirror = mirror or machine_mirror()
        subprocess.run(["debootstrap", "--variant=minbase", f"--include={packages}", release, root,
                        mirror], check=True, stdout=output)
    shutil.rmtree(root / "etc/apt/sources.list.d", ignore_errors=True)
    (root / "etc/apt/sources.list").unlink(missing_ok=True)
    for name in ("apt/sources.list", "apt/sources.list.d", "apt/apt.conf.d", "pip.conf", "hosts",
                 "resolv.conf", "ssl/certs/ca-certificates.crt"):
        source, target = Path("/etc", name), root / "etc" / name
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.exists():
            target.unlink(missing_ok=True)
            shutil.copyfile(source, target)
    if release != "bookworm":
        shutil.rmtree(root / "etc/apt/sources.list.d", ignore_errors=True)
        (root / "etc/apt/sources.list").write_text(f"deb {mirror} {release} main\n")
    pip = Path.home() / ".config/pip/pip.conf"
    if pip.exists():
        shutil.copyfile(pip, root / "etc/pip.conf")


def run(root: Path, script: str) -> None:
    """Runs a shell script in `root`, as root. Throws CalledProcessError if it fails. Its mounts and
    processes end with it."""
    environment = {key: value for key, value in os.environ.items() if key.lower() in _KEPT}
    environment.update(HOME="/root", PATH="/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                       SSL_CERT_FILE=_CERTIFICATES, PIP_CERT=_CERTIFICATES, LANG="C.UTF-8")
    subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
         'mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" && '
         'mount -t proc proc "$0/proc" && exec chroot "$0" sh -c "$1"', root, script],
        check=True, env=environment, stdin=subprocess.DEVNULL)
