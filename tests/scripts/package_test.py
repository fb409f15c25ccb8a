#!/usr/bin/env python3
"""Tests the parts of scripts/package and scripts/fetch_libtorch that need no build and no
network. tests/package/run tests the packages."""

import ctypes.util
import importlib.util
import os
import subprocess
import sys
import tempfile
import tomllib
import unittest
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

sys.dont_write_bytecode = True
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
_LOADER = SourceFileLoader("package", str(SCRIPTS / "package"))
package = importlib.util.module_from_spec(importlib.util.spec_from_loader("package", _LOADER))
_LOADER.exec_module(package)


class PackageTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="dtrain-package-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def wheel(self, content: bytes, name: str = "bin/dtrain") -> Path:
        file = self.directory / "dtrain.whl"
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(f"dtrain-1.0.data/data/{name}", content)
        return file

    def test_refuses_a_file_that_needs_a_newer_c_library(self) -> None:
        for name, limit, newer in (("bin/dtrain", "2.31", "2.34"),
                                   ("libexec/dtrain/command-host", "2.31", "2.32"),
                                   ("libexec/dtrain/trial-host", "2.36", "2.38"),
                                   ("libexec/dtrain/data-fetch", "2.36", "2.38"),
                                   ("lib/libdtrain_trial.so", "2.36", "2.37")):
            content = f"\x7fELF\0GLIBC_{limit}\0GLIBC_2.2.5\0".encode()
            package.check_symbols(self.wheel(content, name))
            with self.assertRaisesRegex(SystemExit, f"{name} needs glibc {newer}, .* {limit};"):
                package.check_symbols(self.wheel(content + f"GLIBC_{newer}\0".encode(), name))

    def test_needs_torch_for_models_only(self) -> None:
        project = tomllib.loads(package.PYPROJECT.format(
            version="1.0", build="b", source="s", sysroot="r", packages=[]))["project"]
        self.assertNotIn("dependencies", project)
        self.assertEqual(project["optional-dependencies"], {"models": ["torch==2.11.*"]})

    def test_refuses_a_wheel_with_paths_of_the_checkout(self) -> None:
        path = str(package.REPOSITORY).encode()
        with self.assertRaisesRegex(SystemExit, "bin/dtrain names a directory of this checkout"):
            package.check_paths(self.wheel(b"\x7fELF\0" + path + b"/build/lib\0"))

    def test_refuses_a_wheel_without_a_library_that_it_needs(self) -> None:
        library = self.directory / "libpart.so"
        for name, links in (("libpart.so", []), ("libwhole.so", [library])):
            subprocess.run(["cc", "-shared", "-Wl,--no-as-needed", "-o", self.directory / name,
                            "-x", "c", "/dev/null", "-x", "none", *links, f"-Wl,-soname,{name}"],
                           check=True)
        file = self.directory / "dtrain.whl"
        with zipfile.ZipFile(file, "w") as archive:
            archive.write(self.directory / "libwhole.so", "lib/libwhole.so")
        with self.assertRaisesRegex(SystemExit, "lib/libwhole.so needs libpart.so, which is not"):
            package.check_libraries(file)
        with zipfile.ZipFile(file, "a") as archive:
            archive.write(library, "lib/libpart.so")
        package.check_libraries(file)

    def test_refuses_a_wheel_without_licence_texts(self) -> None:
        file = self.directory / "dtrain.whl"
        licenses = "dtrain.data/data/share/doc/dtrain/licenses"
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("dtrain.data/data/lib/dtrain/bundled/libcurl.so.4", "")
        with self.assertRaisesRegex(SystemExit, "lacks licence texts"):
            package.check_licenses(file)
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(f"{licenses}/zlib1g-dev", "")
        with self.assertRaisesRegex(SystemExit, "lacks licence texts"):
            package.check_licenses(file)
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(f"{licenses}/libcurl4", "")
        package.check_licenses(file)

    def license_texts(self, *definitions: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["cmake", f"-DDIRECTORY={self.directory}/licenses",
             *(f"-D{it}" for it in definitions), "-P", SCRIPTS / "cmake/LicenseTexts.cmake"],
            check=False, text=True, stderr=subprocess.PIPE)

    def test_copies_licence_texts(self) -> None:
        library = ctypes.util.find_library("z")
        path, = {it.split(" => ")[1] for it in subprocess.run(
            ["/sbin/ldconfig", "-p"], check=True, text=True, stdout=subprocess.PIPE)
                 .stdout.splitlines() if f"{library} (libc6,x86-64)" in it}
        done = self.license_texts("PACKAGES=libre2-dev", f"LIBRARIES={path}")
        self.assertEqual(done.returncode, 0, done.stderr)
        texts = {it.name for it in (self.directory / "licenses").iterdir()}
        self.assertEqual(texts, {"common-licenses", "libre2-dev", "zlib1g"})
        self.assertTrue(list((self.directory / "licenses/common-licenses").iterdir()))

    def test_refuses_a_library_without_a_licence_text(self) -> None:
        file = self.directory / "libown.so"
        file.touch()
        done = self.license_texts(f"LIBRARIES={file}")
        self.assertIn("is not a file of a Debian package", done.stderr)
        self.assertNotEqual(done.returncode, 0)
        done = self.license_texts("PACKAGES=no-such-package")
        self.assertIn("the licence text of no-such-package", done.stderr)

    def test_takes_the_version_from_cmake(self) -> None:
        self.assertIn(f"project(dtrain VERSION {package.version()} ",
                      (SCRIPTS.parent / "CMakeLists.txt").read_text())

    def test_refuses_an_unknown_package(self) -> None:
        done = subprocess.run([SCRIPTS / "package", "rpm"], text=True, check=False,
                              stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown package 'rpm'; known: wheel, tar, deb", done.stderr)

    def fetch(self, *arguments: object, **environment: str) -> str:
        done = subprocess.run([SCRIPTS / "fetch_libtorch", *arguments], text=True, check=False,
                              stderr=subprocess.PIPE, env={**os.environ, **environment})
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_fetch_libtorch_explains_wrong_usage(self) -> None:
        self.assertIn("is not an installation; name a directory", self.fetch())
        self.assertIn("unknown option '--all'; usage:", self.fetch("--all"))
        self.assertIn("unknown argument 'b'; usage:", self.fetch("a", "b"))
        self.assertIn("DTRAIN_CUDA is 'yes'; set it to 0, 1 or auto",
                      self.fetch(self.directory / "torch", DTRAIN_CUDA="yes"))
        (self.directory / "file").touch()
        self.assertIn("cannot write to", self.fetch(self.directory / "file" / "torch"))

    def test_fetch_libtorch_names_missing_programs(self) -> None:
        for name in ("bash", "readlink", "dirname"):
            (self.directory / name).symlink_to(f"/usr/bin/{name}")
        told = self.fetch(self.directory / "torch", PATH=str(self.directory))
        self.assertIn("python3 is missing; install it (Debian: apt-get install python3)", told)


if __name__ == "__main__":
    unittest.main(verbosity=2)
