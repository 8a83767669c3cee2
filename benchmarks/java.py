"""Java programs that peers are asked by: a file of source, built where it is asked, with jars that Maven brings. Needs a JDK and Maven."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version><dependencies>{}</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>\n"
_OPENED = [word for each in ("java.util", "java.lang") for word in ("--add-opens", f"java.base/{each}=ALL-UNNAMED")]


@dataclass(frozen=True)
class JavaProgram:
    """A file with the class of its name, and the jars it needs, each `group:name:version`."""

    source: Path
    jars: tuple[str, ...]

    def build(self, folder: Path) -> None:
        """Into a folder that is there. Raises RuntimeError: Maven or the compiler says no."""
        (folder / "pom.xml").write_text(_POM.format("".join(_DEPENDENCY.format(*jar.split(":")) for jar in self.jars)))
        for command in (
            ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"],
            ["javac", "-nowarn", "-d", "out", "-cp", "lib/*", str(self.source)],
        ):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{command[0]} ended with status {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")

    def words(self, folder: Path, *options: str) -> list[str]:
        """The command that runs it; `folder`: where it was built."""
        return ["java", *options, *_OPENED, "-cp", f"{folder}/out:{folder}/lib/*", self.source.stem]
